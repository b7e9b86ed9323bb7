# A program that never heard of tfmuster, in R.
tf <- reticulate::import("tensorflow")
np <- reticulate::import("numpy", convert = FALSE)
strategy <- tf$distribute$MultiWorkerMirroredStrategy()
tf$keras$utils$set_random_seed(1L)
with(strategy$scope(), {
  model <- tf$keras$Sequential(list(tf$keras$Input(reticulate::tuple(4L)), tf$keras$layers$Dense(1L)))
  model$compile(optimizer = "sgd", loss = "mse")
})
x <- np$random$default_rng(1L)$normal(size = reticulate::tuple(64L, 4L))
model$fit(x, x$sum(axis = 1L), batch_size = 16L, epochs = 2L, verbose = 2L)
cat("replicas", strategy$num_replicas_in_sync, "weights", sum(model$get_weights()[[1]]), "\n")
