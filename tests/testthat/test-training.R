test_that("a small training gives a history as a data frame, a test accuracy and a model", {
  skip_without_python(tensorflow = TRUE)
  save <- withr::local_tempfile(fileext = ".keras")
  json <- withr::local_tempfile(fileext = ".json")
  result <- train_mnist(
    "mlp",
    dataset = synthetic(seed = 1, train = 640, test = 100), epochs = 2, batch_size = 64, seed = 3,
    save = save, history = json, verbose = FALSE
  )
  expect_s3_class(result, "tfmuster_training")
  expect_s3_class(result$history, c("tfmuster_history", "data.frame"))
  expect_named(result$history, c("epoch", "metric", "value", "data"))
  expect_equal(nrow(result$history), 2 * 4)
  expect_setequal(result$history$data, c("training", "validation"))
  expect_equal(result$global_batch_size, 64)
  expect_equal(result$replicas, 1)
  expect_true(result$test_accuracy >= 0 && result$test_accuracy <= 1)
  expect_true(file.exists(save))
  expect_equal(normalizePath(result$model_path), normalizePath(save))
  skip_if_not_installed("jsonlite")
  written <- jsonlite::fromJSON(json)
  expect_equal(as_history(written$history)$value, result$history$value)
})

test_that("the same seed gives the same training", {
  skip_without_python(tensorflow = TRUE)
  digits <- synthetic(seed = 1, train = 320, test = 50)
  train <- function() train_mnist("softmax", dataset = digits, epochs = 2, seed = 5, verbose = FALSE)$history
  expect_equal(train(), train())
})

test_that("a training outside a terminal prints one line per epoch", {
  skip_without_python(tensorflow = TRUE)
  run <- run_r(
    "result <- train_mnist('softmax', dataset = synthetic(1, 300, 50), epochs = 3, seed = 1)",
    env = c(TF_CONFIG = NA)
  )
  expect_equal(run$status, 0, info = run$output)
  expect_length(grep("^epoch [123]/3 ", run$output), 3)
  expect_no_match(run$output, "\b", fixed = TRUE)
})

test_that("a strategy is given by its name, too", {
  skip_without_python(tensorflow = TRUE)
  digits <- synthetic(seed = 1, train = 128, test = 16)
  result <- train_mnist("softmax", dataset = digits, strategy = "one_device", epochs = 1, verbose = FALSE)
  expect_equal(result$replicas, 1L)
})

test_that("bad arguments are errors with their reason", {
  skip_without_python(tensorflow = TRUE)
  digits <- synthetic(seed = 1, train = 64, test = 16)
  expect_snapshot(train_mnist("resnet", dataset = digits), error = TRUE)
  expect_snapshot(train_mnist("cnn", dataset = digits, epochs = 1.5), error = TRUE)
  expect_snapshot(train_mnist("cnn", dataset = digits, learning_rate = -1, verbose = FALSE), error = TRUE)
  expect_equal(expect_kind(train_mnist("cnn", dataset = "/no/such/mnist.npz"), "data")$reason, "not-found")
})

test_that("histories and results print", {
  expect_snapshot(print(a_history()))
  result <- structure(
    list(
      history = a_history(), test_accuracy = 0.7123, test_loss = 0.912, global_batch_size = 128L,
      replicas = 2L,
      model_path = "m.keras", dataset = "synthetic: 640 digits", seconds = 1.5
    ),
    class = "tfmuster_training"
  )
  expect_snapshot(print(result))
  expect_snapshot(print(as_history(list(loss = 0.5))))
})

test_that("what is no whole history any more prints as the data frame that it is", {
  history <- a_history()
  expect_s3_class(history[history$metric == "loss", ], "tfmuster_history")
  expect_s3_class(utils::head(history, 2), "tfmuster_history")
  expect_equal(class(history["value"]), "data.frame")
  expect_equal(class(history[, c("epoch", "value")]), "data.frame")
  expect_equal(history[, "value"], history$value)
  expect_equal(history[["value"]], history$value)
  expect_output(print(history["value"]), "^ +value")
  twice <- rbind(history, history)
  expect_length(capture.output(print(twice)), 1 + 2 * nrow(history))
  history$metric <- NULL
  expect_output(print(history), "epoch +value +data")
  expect_equal(cli::ansi_strip(capture.output(print(as_history(list())))), "Training history, 0 epochs")
})

test_that("Python's validation metrics become rows of the same metric", {
  history <- as_history(list(loss = c(2, 1), val_loss = c(3, 2)))
  expect_equal(history$metric, rep("loss", 4))
  expect_equal(history$data, rep(c("training", "validation"), each = 2))
  expect_equal(nrow(as_history(list())), 0)
})
