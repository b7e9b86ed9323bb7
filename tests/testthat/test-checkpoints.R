test_that("a training that is interrupted resumes with the same weights", {
  skip_without_python(tensorflow = TRUE)
  digits <- synthetic(train = 300, test = 100)
  train <- function(folder, epochs) {
    train_mnist(
      "mlp", dataset = digits, epochs = epochs, verbose = FALSE,
      callbacks = list(callback_checkpoint(folder, every = 2))
    )
  }
  undisturbed <- train(withr::local_tempdir(), 3)
  folder <- withr::local_tempdir()
  train(folder, 1)
  resumed <- train(folder, 3)
  expect_identical(resumed$model$get_weights(), undisturbed$model$get_weights())
  expect_identical(resumed$history$value, undisturbed$history$value)
  expect_length(list.files(folder, "[.]checkpoint$"), 2)
})

test_that("what can't be used is refused", {
  skip_without_python(tensorflow = TRUE)
  withr::local_envvar(TFMUSTER_RUN_DIR = NA)
  expect_error(callback_checkpoint("x", every = 0), class = "tfmuster_error_checkpoint")
  expect_error(callback_checkpoint("x", every = "step"), "whole number of steps")
})
