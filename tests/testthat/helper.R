# On a continuous-integration machine RETICULATE_PYTHON is set and nothing is skipped.
skip_without_python <- function(tensorflow = FALSE) {
  skip_if_not(
    tfmuster_available(tensorflow),
    paste("no Python with", if (tensorflow) "TensorFlow" else "orjson, click and PyYAML")
  )
}

# `make test-fast` leaves out the tests that start processes: a job's, or an R of their own.
skip_if_fast <- function() {
  skip_if(identical(Sys.getenv("TFMUSTER_TEST_FAST"), "true"), "starts processes: not in make test-fast")
}

expect_kind <- function(object, kind) {
  expect_error(object, class = paste0("tfmuster_error_", kind))
}

two_workers <- function() cluster_spec(worker = c("10.0.0.1:2222", "10.0.0.2:2222"))

a_history <- function() {
  as_history(list(
    loss = c(2.3, 1.2, 0.6), accuracy = c(0.1, 0.5, 0.8),
    val_loss = c(2.2, 1.4, 0.9), val_accuracy = c(0.15, 0.45, 0.7)
  ))
}

rscript <- function() file.path(R.home("bin"), "Rscript")

# For programs that are not to be forked from one in which Python runs (tests/python/support/forks.py).
fresh <- c(FORK_SERVERS = "")

# Runs R code in a process of its own, where Python has not started: TensorFlow has one life per process.
run_r <- function(code, env = character(), timeout = 240) {
  skip_if_fast()
  file <- withr::local_tempfile(fileext = ".R")
  writeLines(c(sprintf(".libPaths(%s)", deparse1(.libPaths())), "library(tfmuster)", code), file)
  output <- suppressWarnings(withr::with_envvar(
    c(env, TF_CPP_MIN_LOG_LEVEL = "2"),
    system2(rscript(), shQuote(file), stdout = TRUE, stderr = TRUE, timeout = timeout)
  ))
  status <- attr(output, "status") %||% 0L
  list(output = as.character(output), status = status)
}

# Runs R code in two processes that know of each other by the code's TF_CONFIG alone, as in two terminals.
# In the code, `%s` is where it sets the variable. Returns what each has printed.
in_two_terminals <- function(code, timeout = 240) {
  skip_if_fast()
  ports <- free_ports(2)
  folder <- withr::local_tempdir()
  out <- file.path(folder, paste0(0:1, ".txt"))
  commands <- vapply(0:1, function(index) {
    spec <- sprintf('{"cluster":{"worker":["127.0.0.1:%d","127.0.0.1:%d"]},', ports[1], ports[2])
    spec <- sprintf('%s"task":{"type":"worker","index":%d}}', spec, index)
    file <- file.path(folder, paste0(index, ".R"))
    lines <- sub("%s", sprintf("Sys.setenv(TF_CONFIG = '%s')", spec), code, fixed = TRUE)
    writeLines(c(sprintf(".libPaths(%s)", deparse1(.libPaths())), lines), file)
    sprintf("timeout %d %s %s > %s 2>&1 &", timeout, rscript(), file, out[index + 1])
  }, "")
  env <- c(fresh, TF_CONFIG = NA, TF_CPP_MIN_LOG_LEVEL = "2", PYTHONHASHSEED = "0")
  withr::with_envvar(env, system2("sh", c("-c", shQuote(paste(c(commands, "wait"), collapse = " ")))))
  lapply(out, readLines)
}

# Expects that both terminals have printed the same numbers, of which the first is that of the workers.
expect_trained_together <- function(shown) {
  numbers <- lapply(shown, function(lines) numbers_of(lines)[[1]])
  expect_equal(numbers[[1]][1], 2, info = shown[[1]])
  expect_equal(numbers[[1]], numbers[[2]])
}

free_ports <- function(n) {
  sockets <- list()
  ports <- integer()
  while (length(ports) < n) {
    port <- sample(20000:40000, 1)
    socket <- tryCatch(serverSocket(port), error = function(e) NULL)
    if (!is.null(socket)) {
      sockets <- c(sockets, list(socket))
      ports <- c(ports, port)
    }
  }
  for (socket in sockets) close(socket)
  ports
}

# A run directory as a launcher leaves it, without the processes.
a_run <- function(folder, name, loss) {
  path <- file.path(folder, name)
  dir.create(file.path(path, "logs"), recursive = TRUE)
  info <- '{"host": "elsewhere", "command": ["train.R"], "started": "2020-01-01T00:00:00Z"}'
  writeLines(info, file.path(path, "run.json"))
  writeLines('{"state": "done", "restarts": 0, "tasks": {}}', file.path(path, "status.json"))
  epochs <- seq_along(loss)
  lines <- sprintf('{"epoch": %d, "loss": %s, "val_loss": %s, "time": 0}', epochs, loss, loss)
  writeLines(gsub("NaN", "null", lines), file.path(path, "metrics.jsonl"))
  path
}

# What an R user builds with reticulate under the strategy `made`, and digits that stay in Python.
own_model <- c(
  "keras <- reticulate::import('keras')",
  "with(made$scope(), {",
  "  model <- keras$Sequential(list(",
  "    keras$Input(shape = reticulate::tuple(28L, 28L)), keras$layers$Rescaling(1 / 255),",
  "    keras$layers$Flatten(), keras$layers$Dense(10L)",
  "  ))",
  "  model$compile(",
  "    loss = keras$losses$SparseCategoricalCrossentropy(from_logits = TRUE),",
  "    optimizer = keras$optimizers$SGD(0.1), metrics = list('accuracy')",
  "  )",
  "})",
  "digits <- synthetic(1, 256, 64)"
)

# The numbers that a program prints after the word `numbers`, for each process.
numbers_of <- function(lines) {
  found <- regmatches(lines, regexpr("numbers .*", lines))
  lapply(strsplit(trimws(sub("numbers ", "", found)), " +"), as.numeric)
}

# Points of two classes, and a model of them.
two_classes <- function(n = 120) {
  x <- matrix(stats::rnorm(2 * n), n)
  list(x = x, y = as.integer(x[, 1] > x[, 2]))
}

a_model <- function(units = 2L, columns = 2L) {
  keras <- reticulate::import("keras")
  keras$utils$set_random_seed(1L)
  model <- keras$Sequential(list(keras$Input(shape = reticulate::tuple(columns)), keras$layers$Dense(units)))
  loss <- keras$losses$SparseCategoricalCrossentropy(from_logits = TRUE)
  compile(model, optimizer = "adam", loss = loss, metrics = "accuracy")
}
