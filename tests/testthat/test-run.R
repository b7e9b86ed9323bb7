# A run as an R value.
test_that("a run is data: it survives saveRDS() and is used in another session", {
  skip_without_python()
  folder <- withr::local_tempdir()
  run <- run_open(a_run(folder, "mine", c(2, 1)))
  expect_equal(unclass(run), list(path = file.path(normalizePath(folder), "mine")))
  file <- withr::local_tempfile(fileext = ".rds")
  saveRDS(list(run, run_list(folder = folder)), file)
  other <- run_r(c(
    sprintf("saved <- readRDS(%s)", deparse(file)),
    "stopifnot(!reticulate::py_available())",
    "print(saved[[1]]); cat(nrow(run_history(saved[[1]])), format(saved[[2]][[1]]), '\n')",
    "grDevices::pdf(NULL); plot(saved[[1]], engine = 'base')"
  ), env = fresh)
  expect_equal(other$status, 0, info = toString(other$output))
  expect_match(other$output, "^Run mine done", all = FALSE)
  expect_match(other$output, "^4 <run mine: done>", all = FALSE)
})

test_that("a run has a row per task, a row for all, and its epochs", {
  skip_without_python()
  path <- a_run(withr::local_tempdir(), "mine", c(2, 1))
  tasks <- paste0(
    '{"worker 0": {"state": "done", "host": "a", "pid": 7, "exit_code": 0},',
    ' "worker 1": {"state": "failed", "host": "b", "pid": null, "exit_code": 1}}'
  )
  writeLines(
    sprintf('{"state": "failed", "restarts": 1, "tasks": %s, "updated": "2020-01-01T00:01:30Z"}', tasks),
    file.path(path, "status.json")
  )
  run <- run_open(path)
  rows <- as.data.frame(run)
  expect_equal(rows[1:5], data.frame(
    task = c("worker 0", "worker 1"), state = c("done", "failed"), host = c("a", "b"), pid = c(7L, NA),
    exit_code = 0:1
  ))
  expect_true(all(is.na(rows$wait_share)))
  row <- glance(run)
  expected <- data.frame(
    name = "mine", state = "failed", tasks = 2L, restarts = 1L, seconds = 90, epochs = 2L, loss = 1,
    val_loss = 1
  )
  expect_equal(row[names(expected)], expected)
  expect_equal(as.numeric(row$started), as.numeric(as.POSIXct("2020-01-01", tz = "UTC")))
  expect_equal(tidy(run), as.data.frame(run_history(run)))
  expect_s3_class(tidy(run), "data.frame", exact = TRUE)
  whole <- summary(run)
  expect_equal(whole$tasks, rows)
  expect_equal(whole$metrics$first, c(2, 2))
  expect_equal(whole$metrics$last, c(1, 1))
  shown <- capture.output(print(whole))
  expect_match(shown, "^Run mine failed$", all = FALSE)
  expect_match(shown, "90 secs, 2 epochs, 1 restarts", all = FALSE)
  # Each value with its own digits, whatever the others are.
  whole$metrics$last <- c(156261.7, 0.12345)
  expect_match(capture.output(print(whole)), " 156,300", all = FALSE)
  expect_match(capture.output(print(whole)), " 0[.]123[45] *$", all = FALSE)
  # What is not known of any task takes no place.
  expect_no_match(shown, "wait_share")
  expect_true(all(nchar(shown) <= 80))
})

test_that("a run without tasks and epochs has empty tables", {
  skip_without_python()
  run <- run_open(a_run(withr::local_tempdir(), "mine", numeric()))
  expect_equal(dim(as.data.frame(run)), c(0, 0))
  expect_equal(glance(run)$epochs, 0)
  expect_output(print(summary(run)), "Run mine done")
})

test_that("a run whose directory is gone says so", {
  skip_without_python()
  run <- run_open(a_run(withr::local_tempdir(), "mine", 1))
  run_remove(run)
  expect_equal(format(run), "<run mine: removed>")
  expect_output(print(run), "Run mine removed.*is no longer there")
  error <- expect_kind(run_status(run), "error")
  expect_match(error$found, "no run in .*mine$")
  expect_equal(error$run, "mine")
})

test_that("the fields of Python's run are there, too", {
  skip_without_python()
  path <- a_run(withr::local_tempdir(), "mine", 1)
  run <- run_open(path)
  expect_equal(run$name, "mine")
  expect_equal(basename(format(run$model_path)), "model.keras")
  expect_equal(run$status()$state, "done")
  expect_equal(run$history(), run_history(run))
  expect_equal(run[["name"]], run$name)
  expect_equal(run[["path"]], path)
  # What is completed is there, and anything else is an error of R.
  expect_setequal(utils::.DollarNames(run, "st"), c("status()", "stacks()", "stop()", "history()"))
  for (name in sub("()", "", utils::.DollarNames(run, ""), fixed = TRUE)) expect_no_error(run[[name]])
  error <- expect_kind(run$nope, "error")
  expect_match(conditionMessage(error), "nope.*It has path, name")
  # And Python's run is a run for R.
  python <- run_python("Run", path)
  expect_s3_class(python, "tfmuster.Run")
  expect_equal(as_run(python), run)
  expect_output(print(python), "^Run mine done")
})

test_that("a training has a row and epochs, too", {
  training <- structure(
    list(
      history = a_history(), test_accuracy = 0.5, test_loss = 1, replicas = 2, global_batch_size = 64,
      seconds = 3
    ),
    class = "tfmuster_training"
  )
  expect_equal(nrow(tidy(training)), 12)
  expect_equal(tidy(training), tidy(a_history()))
  expect_equal(glance(training)[c("epochs", "test_accuracy")], data.frame(epochs = 3L, test_accuracy = 0.5))
})

# Runs the event loop until a promise has an outcome.
settled <- function(promise) {
  outcome <- NULL
  promises::then(
    promise,
    onFulfilled = function(value) outcome <<- list(value = value),
    onRejected = function(error) outcome <<- list(error = error)
  )
  end <- Sys.time() + 60
  while (is.null(outcome) && Sys.time() < end) later::run_now(1)
  outcome
}

test_that("a run is a promise of its values, of its run, or of its failure", {
  skip_if_fast()
  skip_without_python(tensorflow = TRUE)
  skip_if_not_installed("promises")
  folder <- withr::local_tempdir()
  begin <- function(program, name) {
    launch(program, workers = 1, wait = FALSE, run_dir = file.path(folder, name))
  }
  good <- begin(function() 42, "good")
  bad <- begin(function() stop("out of luck"), "bad")
  script <- begin(withr::local_tempfile(fileext = ".R", lines = "cat('ran\n')"), "script")
  expect_equal(unname(unclass(settled(good)$value))[[1]], 42)
  error <- settled(bad)$error
  expect_s3_class(error, "tfmuster_error_worker")
  expect_equal(conditionMessage(error$parent), "out of luck")
  expect_equal(settled(script)$value, script)
})
