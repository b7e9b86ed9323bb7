test_that("the page is written where it is asked for, and shown in the viewer", {
  skip_without_python(tensorflow = TRUE)
  folder <- withr::local_tempdir()
  run <- a_run(folder, "mine", c(3, 2, 1))
  shown <- NULL
  withr::local_options(viewer = function(url) shown <<- url)
  page <- run_view(run, open = TRUE)
  expect_equal(shown, page)
  expect_equal(dirname(page), normalizePath(tempdir()))
  file <- file.path(folder, "page.html")
  expect_equal(run_view(run, file), normalizePath(file))
  text <- paste(readLines(file), collapse = "\n")
  for (part in c("summary", "cluster", "curves", "environment")) expect_match(text, sprintf('id="%s"', part))
  expect_match(text, "loss: training from 3 to 1 in 3 epochs")
})

test_that("where no viewer is, the page's path is said, and a browser that fails says nothing", {
  skip_without_python(tensorflow = TRUE)
  run <- a_run(withr::local_tempdir(), "mine", 1)
  browser <- withr::local_tempfile()
  opened <- withr::local_tempfile()
  writeLines(c("#!/bin/sh", "echo no method available >&2", paste("echo \"$1\" >", opened)), browser)
  Sys.chmod(browser, "700")
  withr::local_options(viewer = NULL, browser = browser)
  expect_message(page <- run_view(run, open = TRUE), "run-.*[.]html")
  for (i in 1:50) if (!file.exists(opened) || !length(readLines(opened))) Sys.sleep(0.1)
  expect_equal(readLines(opened), page)
  withr::local_options(browser = "")
  expect_message(run_view(run, open = TRUE), "The page is")
  shown <- NULL
  withr::local_options(browser = function(url) shown <<- url)
  expect_message(page <- run_view(run, open = TRUE), "The page is")
  expect_equal(shown, page)
  # In an R of its own, whose output is seen: what the browser says is not in it.
  said <- run_r(sprintf(
    "options(viewer = NULL, browser = %s); run_view(%s, open = TRUE)", deparse(browser), deparse(run)
  ))
  expect_match(said$output, "The page is", all = FALSE)
  expect_no_match(said$output, "no method available")
})

test_that("a page in a folder that is not there is an error of R's own", {
  skip_without_python(tensorflow = TRUE)
  run <- a_run(withr::local_tempdir(), "mine", 1)
  expect_equal(expect_kind(run_view(run, "no/such/page.html"), "error")$found, "\"no/such/page.html\"")
  expect_kind(run_view(run, tempdir()), "error")
})

test_that("the chief writes TensorBoard's logs, and TensorBoard shows them", {
  skip_if_fast()
  skip_without_python(tensorflow = TRUE)
  skip_if_not(reticulate::py_module_available("tensorboard"), "no tensorboard")
  folder <- file.path(withr::local_tempdir(), "run")
  train <- function(strategy) {
    train_mnist(
      "softmax", "synthetic",
      strategy = strategy, epochs = 1, steps_per_epoch = 5, callbacks = list(callback_tensorboard())
    )$replicas
  }
  run <- launch(train, workers = 2, quiet = TRUE, run_dir = folder)
  # On the chief alone: one file of one process.
  expect_length(list.files(file.path(folder, "tensorboard", "train"), "events", recursive = TRUE), 1)
  board <- tfmuster_tensorboard(run, open = FALSE)
  withr::defer(tools::pskill(board$pid, tools::SIGKILL))
  expect_match(readLines(paste0(board$url, "data/runs"), warn = FALSE), "train")
})

test_that("TensorBoard without logs or folder is an error that says what to do", {
  skip_without_python(tensorflow = TRUE)
  skip_if_not(reticulate::py_module_available("tensorboard"), "no tensorboard")
  run <- a_run(withr::local_tempdir(), "mine", 1)
  expect_match(conditionMessage(expect_kind(tfmuster_tensorboard(run), "error")), "callback_tensorboard")
  expect_kind(callback_tensorboard(), "error")
})

test_that("TensorBoard's callback takes Keras's arguments", {
  skip_without_python(tensorflow = TRUE)
  skip_if_not(reticulate::py_module_available("tensorboard"), "no tensorboard")
  folder <- withr::local_tempdir()
  callback <- callback_tensorboard(log_dir = folder, histogram_freq = 2)
  expect_equal(callback$histogram_freq, 2)
  expect_s3_class(callback, "keras.src.callbacks.tensorboard.TensorBoard")
})
