# A training loop of your own: what `fit()` does, step by step.
#
# Rscript examples/custom_loop.R [DATASET]                      one process
# tfmuster launch -n 2 examples/custom_loop.R [DATASET]         two workers
library(tfmuster)

arguments <- commandArgs(TRUE)
strategy <- strategy(if (is.null(current_task())) "one_device" else "multi_worker_mirrored")
tf <- reticulate::import("tensorflow")
keras <- reticulate::import("keras")
`%as%` <- reticulate::`%as%`

global_batch <- 128L
digits <- if ("synthetic" %in% arguments) synthetic() else mnist(if (length(arguments)) arguments[[1]])
rows <- tf$data$Dataset$from_tensor_slices(reticulate::tuple(digits$x_train, digits$y_train))
batches <- rows$shuffle(10000L, seed = 1L)$`repeat`()$batch(global_batch, drop_remainder = TRUE)

with(strategy$scope(), {
  model <- mnist_model("cnn", seed = 0)
  optimizer <- keras$optimizers$Adam(0.001)
  optimizer$build(model$trainable_variables)
})

train <- function(batch) {
  with(tf$GradientTape() %as% tape, {
    logits <- model(batch[[1]], training = TRUE)
    losses <- keras$ops$sparse_categorical_crossentropy(batch[[2]], logits, from_logits = TRUE)
    # The sum over the rows of this replica, over those of all.
    loss <- tf$divide(tf$reduce_sum(losses), global_batch)
  })
  optimizer$apply(tape$gradient(loss, model$trainable_variables), model$trainable_variables)
  loss
}

step <- distributed_step(strategy, train, reduce = "sum")
iterator <- reticulate::as_iterator(strategy$experimental_distribute_dataset(batches))
for (number in 1:100) {
  loss <- step(iterator)
  if (number %% 20 == 0) cat(sprintf("step %d: loss %.4f\n", number, as.numeric(loss$numpy())))
}
