# A model without a strategy, as R users train one with reticulate alone.
train <- function(batch_size = 16L) {
  keras <- reticulate::import("keras")
  keras$utils$set_random_seed(1L)
  set.seed(1)
  x <- matrix(rnorm(192), 64)
  y <- matrix(rowSums(x), ncol = 1)
  model <- keras$Sequential(list(keras$layers$Dense(4L, "tanh"), keras$layers$Dense(1L)))
  model$compile(optimizer = "sgd", loss = "mse")
  history <- model$fit(x, y, batch_size = batch_size, epochs = 2L, verbose = 0L)
  c(model$optimizer$iterations$numpy(), unlist(history$history$loss), unlist(model$get_weights()))
}

test_that("launch() trains a function without a strategy on two workers", {
  skip_if_fast()
  skip_without_python(tensorflow = TRUE)
  run_dir <- file.path(withr::local_tempdir(), "run")
  expected <- train()
  distributed <- launch_control(distribute = TRUE)
  values <- launch(train, workers = 2, control = distributed, quiet = TRUE, run_dir = run_dir)
  expect_equal(values[["worker 0"]], values[["worker 1"]])
  expect_equal(values[["worker 0"]], expected, tolerance = 1e-5)
  expect_equal(expected[1], 8)
})

test_that("launch() trains a script without a strategy on two workers, on batches of each worker's size", {
  skip_if_fast()
  skip_without_python(tensorflow = TRUE)
  script <- withr::local_tempfile(fileext = ".R", lines = c(
    paste("train <-", paste(deparse(train), collapse = "\n")),
    "cat('numbers', format(train(), digits = 7), '\\n')",
    "cat('chief', Sys.getenv('TFMUSTER_IS_CHIEF'), '\\n')"
  ))
  shown <- capture.output(launch(
    script,
    workers = 2, control = launch_control(distribute = TRUE, scale_batch = TRUE, all_output = TRUE),
    run_dir = file.path(withr::local_tempdir(), "run")
  ))
  numbers <- numbers_of(shown)
  expect_length(numbers, 2)
  expect_equal(numbers[[1]], numbers[[2]])
  expect_equal(numbers[[1]], train(32L), tolerance = 1e-5)
  expect_equal(numbers[[1]][1], 4)
  told <- grep("2 workers train one model (distribute = TRUE)", shown, value = TRUE, fixed = TRUE)
  expect_length(told, 1)
  expect_match(told, "batch_size is multiplied by 2", fixed = TRUE)
  expect_match(told, 'if Sys.getenv("TFMUSTER_IS_CHIEF") != "0"', fixed = TRUE)
  expect_true(all(c("worker 0 | chief 1", "worker 1 | chief 0") %in% shown))
})
