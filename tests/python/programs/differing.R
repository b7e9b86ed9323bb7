# Functions of R that differ between two workers, in turns with some that do not. tfmuster is not mentioned.
tf <- reticulate::import("tensorflow", convert = FALSE)
strategy <- tf$distribute$MultiWorkerMirroredStrategy()
keras <- reticulate::import("keras", convert = FALSE)
numpy <- reticulate::import("numpy", convert = FALSE)
index <- reticulate::py_to_r(strategy$cluster_resolver$task_id)
values <- matrix(seq(-1, 1, length.out = 64), ncol = 4)
rows <- numpy$float32(values)
bound <- 1 + index
scaled <- function(factor) function(x) keras$ops$multiply(x, factor)
bounded <- function(x) keras$ops$minimum(x, bound)

train <- function(f = identity_of, loss = "mse", callbacks = NULL) {
  with(strategy$scope(), {
    layers <- list(keras$Input(tuple(4L)), keras$layers$Lambda(f), keras$layers$Dense(1L))
    model <- keras$Sequential(layers)
    model$compile("sgd", loss)
  })
  model$fit(rows, numpy$float32(values[, 1]), epochs = 1L, verbose = 0L, callbacks = callbacks)
}
tuple <- reticulate::tuple
identity_of <- function(x) x
squared <- function(y, predicted) keras$ops$mean(keras$ops$square(keras$ops$subtract(y, predicted)), axis = -1L)
absolute <- function(y, predicted) keras$ops$mean(keras$ops$abs(keras$ops$subtract(y, predicted)), axis = -1L)
stops <- function(epoch, logs) lambda$model$stop_training <- TRUE
logs <- function(epoch, logs) cat("epoch", reticulate::py_to_r(epoch), "\n")
lambda <- NULL
callback <- function(f) lambda <<- keras$callbacks$LambdaCallback(on_epoch_end = f)

calls <- list(
  equal = quote(train(scaled(2), squared, list(callback(logs)))),
  `a log of one worker` = quote(train(callbacks = if (index == 0) list(callback(logs)))),
  `constant of a function` = quote(train(scaled(2 + index))),
  `code of a function` = quote(train(if (index == 0) scaled(2) else function(x) keras$ops$add(x, 2))),
  `value that it uses` = quote(train(bounded)),
  loss = quote(train(loss = if (index == 0) squared else absolute)),
  `callback that stops` = quote(train(callbacks = list(callback(if (index == 0) stops else logs))))
)
for (name in names(calls)) {
  said <- tryCatch({
    eval(calls[[name]])
    "trained"
  }, error = function(e) grep("The workers", strsplit(conditionMessage(e), "\n")[[1]], value = TRUE))
  cat(paste0(name, " | ", said, "\n"))
}
