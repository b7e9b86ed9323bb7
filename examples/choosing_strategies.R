# One model under several strategies: only the scope changes.
#
#   Rscript examples/choosing_strategies.R STRATEGY [DATASET] [EPOCHS]
#
# STRATEGY: central_storage, mirrored, or multi_worker_mirrored (a cluster of this one process, unless
# TF_CONFIG names another), which TensorFlow takes once in the life of a process: so each is a run of its own.
library(tfmuster)

arguments <- commandArgs(trailingOnly = TRUE)
name <- if (length(arguments) > 0) arguments[[1]] else "central_storage"
dataset <- if (length(arguments) > 1) arguments[[2]] else "mnist"
epochs <- if (length(arguments) > 2) as.integer(arguments[[3]]) else 10L

if (name == "multi_worker_mirrored" && is.null(current_task())) {
  use_tf_config(cluster_task(cluster_spec(worker = "localhost:10090"), "worker", 0))
}
chosen <- strategy(name)
digits <- if (dataset == "synthetic") synthetic() else mnist(if (dataset != "mnist") dataset)

keras <- reticulate::import("keras")
with(chosen$scope(), {
  model <- keras$Sequential(list(
    keras$Input(shape = reticulate::tuple(28L, 28L), dtype = "uint8"),
    keras$layers$Rescaling(1 / 255),
    keras$layers$Flatten(),
    keras$layers$Dense(256L, activation = "relu"),
    keras$layers$Dropout(0.4),
    keras$layers$Dense(128L, activation = "relu"),
    keras$layers$Dropout(0.3),
    keras$layers$Dense(10L, activation = "softmax")
  ))
  model$compile(loss = "categorical_crossentropy", optimizer = "rmsprop", metrics = list("accuracy"))
})

history <- model$fit(
  digits$x_train, keras$utils$to_categorical(digits$y_train, 10L),
  epochs = epochs, batch_size = 128L, validation_split = 0.2, verbose = 0L
)
cat(name, "with", chosen$num_replicas_in_sync, "replica(s)\n")
print(as.data.frame(history))

test <- model$evaluate(digits$x_test, keras$utils$to_categorical(digits$y_test, 10L), verbose = 0L)
cat("test accuracy", format(test[[2]], digits = 4), "\n")
