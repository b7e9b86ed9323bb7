# R's tfruns is not in Debian; where it is installed, it works with tfmuster.
skip_if_not_installed("tfruns")
skip_if_fast()
skip_without_python(tensorflow = TRUE)

test_that("tfruns lists a run directory", {
  folder <- withr::local_tempdir()
  train <- function() train_mnist("softmax", "synthetic", epochs = 2, steps_per_epoch = 5)$seconds
  launch(train, workers = 1, quiet = TRUE, run_dir = file.path(folder, "mine"))
  runs <- tfruns::ls_runs(runs_dir = folder)
  expect_equal(nrow(runs), 1)
  expect_true(runs$completed)
  expect_true(is.numeric(runs$metric_loss))
})

test_that("training_run() of tfruns on each worker has a directory of its own, and the chief's stays", {
  folder <- withr::local_tempdir()
  train <- file.path(folder, "train.R")
  writeLines("tfruns::write_run_metadata('evaluation', list(loss = worker))", train)
  # The script doesn't know of tfmuster. Both workers look for the name of a run in the same second.
  script <- withr::local_tempfile(fileext = ".R", lines = c(
    sprintf("setwd('%s')", folder),
    "worker <- 1 - as.numeric(Sys.getenv('TFMUSTER_IS_CHIEF'))",
    "Sys.sleep(2 - as.numeric(Sys.time()) %% 2)",
    "runs <- tfruns::training_run('train.R', echo = FALSE, view = FALSE)",
    "stopifnot(!isNamespaceLoaded('tfmuster'))",
    "cat('own run', runs$eval_loss, runs$completed, fill = TRUE)"
  ))
  run <- launch(script, workers = 2, quiet = TRUE, run_dir = file.path(folder, "job"))
  shown <- unlist(run_logs(run))
  expect_match(shown, "own run 0 TRUE", all = FALSE)
  expect_match(shown, "own run 1 TRUE", all = FALSE)
  runs <- tfruns::ls_runs(runs_dir = file.path(folder, "runs"))
  expect_equal(runs$eval_loss, 0)
})
