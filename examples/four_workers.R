# One of four workers, started manually on each machine with the number of that machine:
#
#   Rscript examples/four_workers.R 0      # on 172.31.11.122, and 1, 2, 3 on the others
#
# To try it on one machine, name other addresses and a data set:
#
#   export TFMUSTER_WORKERS=localhost:10090,localhost:10088 TFMUSTER_DATASET=synthetic
#   Rscript examples/four_workers.R 0
library(tfmuster)

index <- utils::type.convert(commandArgs(trailingOnly = TRUE), as.is = TRUE)
if (length(index) != 1 || !is.integer(index)) {
  stop("four_workers.R needs the number of this worker, 0 to 3: Rscript examples/four_workers.R 0")
}
addresses <- Sys.getenv(
  "TFMUSTER_WORKERS", "172.31.11.122:10090,172.31.10.143:10088,172.31.4.119:10087,172.31.4.116:10089"
)
cluster <- cluster_spec(worker = strsplit(addresses, ",")[[1]])
use_tf_config(cluster_task(cluster, "worker", index))

# Before anything else that uses TensorFlow.
workers <- strategy("multi_worker_mirrored")

dataset <- Sys.getenv("TFMUSTER_DATASET", "mnist")
digits <- if (dataset == "synthetic") synthetic() else mnist(if (dataset != "mnist") dataset)

keras <- reticulate::import("keras")
with(workers$scope(), {
  model <- keras$Sequential(list(
    keras$Input(shape = reticulate::tuple(28L, 28L), dtype = "uint8"),
    keras$layers$Rescaling(1 / 255),
    keras$layers$Reshape(reticulate::tuple(28L, 28L, 1L)),
    keras$layers$Conv2D(32L, 3L, activation = "relu"),
    keras$layers$MaxPooling2D(),
    keras$layers$Flatten(),
    keras$layers$Dense(64L, activation = "relu"),
    keras$layers$Dense(10L)
  ))
  model$compile(
    loss = keras$losses$SparseCategoricalCrossentropy(from_logits = TRUE),
    optimizer = keras$optimizers$SGD(learning_rate = 0.001),
    metrics = list("accuracy")
  )
})

history <- model$fit(
  digits$x_train, digits$y_train,
  batch_size = 64L * length(cluster), epochs = 3L, steps_per_epoch = 5L, verbose = 0L
)
print(as.data.frame(history))

# Every worker calls this; the chief writes.
path <- model_to_file(model, Sys.getenv("TFMUSTER_MODEL", "model.keras"))
if (!is.null(path)) cat("The model is in", path, "\n")
