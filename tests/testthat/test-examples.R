# The programs in examples/ are no part of the installed package; in the repository they are run, shortened.
example_file <- function(name) {
  file <- test_path("..", "..", "examples", name)
  skip_if_not(file.exists(file), paste(name, "is in the repository only"))
  normalizePath(file)
}

run_example <- function(name, arguments = character(), env = character()) {
  file <- example_file(name)
  withr::local_dir(withr::local_tempdir())
  env <- c(env, R_LIBS = library_paths())
  output <- withr::with_envvar(c(TF_CONFIG = NA, env), suppressWarnings(system2(
    rscript(), shQuote(c(file, arguments)),
    stdout = TRUE, stderr = TRUE, timeout = 280
  )))
  expect_null(attr(output, "status"), info = paste(output, collapse = "\n"))
  as.character(output)
}

test_that("local training", {
  skip_without_python(tensorflow = TRUE)
  output <- run_example("local_training.R", "synthetic")
  expect_match(output, "^epoch 3/3 ", all = FALSE)
  expect_match(output, "^Test accuracy 0[.]", all = FALSE)
})

test_that("four workers, each started by hand", {
  skip_without_python(tensorflow = TRUE)
  file <- example_file("four_workers.R")
  folder <- withr::local_tempdir()
  env <- c(
    TFMUSTER_WORKERS = paste0("127.0.0.1:", free_ports(4), collapse = ","), TFMUSTER_DATASET = "synthetic",
    TFMUSTER_MODEL = file.path(folder, "model.keras"), R_LIBS = library_paths()
  )
  logs <- file.path(folder, paste0("worker-", 0:3, ".log"))
  worker <- function(index, ...) {
    log <- logs[index + 1]
    system2(rscript(), c(shQuote(file), index), stdout = log, stderr = log, ...)
  }
  # Worker 0 is waited for, and ends when all have trained; the others give up when it does not come.
  withr::with_envvar(env, {
    for (index in 3:1) worker(index, wait = FALSE)
    worker(0, timeout = 280)
  })
  said <- paste(readLines(logs[1]), collapse = "\n")
  expect_true(file.exists(file.path(folder, "model.keras")), info = said)
  expect_match(readLines(logs[1]), "The model is in", all = FALSE)
  epochs <- function(log) grep("^[0-9]+ +[1-3] +(loss|accuracy) ", readLines(log), value = TRUE)
  expect_length(epochs(logs[1]), 6)
})

test_that("workers launched from R", {
  skip_without_python(tensorflow = TRUE)
  output <- run_example("launched_workers.R", c("2", "synthetic"))
  expect_match(output, "epoch 3/3", all = FALSE)
  expect_match(output, "Logs and metrics are in", all = FALSE)
})

for (name in c("central_storage", "mirrored", "multi_worker_mirrored")) {
  test_that(paste("choosing", name), {
    skip_without_python(tensorflow = TRUE)
    output <- run_example("choosing_strategies.R", c(name, "synthetic", "1"))
    expect_match(output, paste(name, "with 1 replica"), all = FALSE)
    expect_match(output, "^test accuracy 0[.]", all = FALSE)
  })
}
