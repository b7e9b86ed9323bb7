# Two workers of which one does not come: R sleeps in a callback of the second.
keras <- reticulate::import("keras")
tf <- reticulate::import("tensorflow")
strategy <- tf$distribute$MultiWorkerMirroredStrategy()
index <- strategy$cluster_resolver$task_id
with(strategy$scope(), {
  model <- keras$Sequential(list(keras$Input(reticulate::tuple(8L)), keras$layers$Dense(1L)))
  model$compile("sgd", "mse")
})
rests <- function(epoch, logs) if (epoch == 1 && index == 1) Sys.sleep(600)
train <- function(x) {
  rest <- keras$callbacks$LambdaCallback(on_epoch_begin = rests)
  model$fit(x, x[, 1, drop = FALSE], epochs = 4L, verbose = 0L, callbacks = list(rest))
}
train(matrix(1, 256, 8))
cat("ends\n")
