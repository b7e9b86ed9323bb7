# How a function fails on a worker, and what the session knows of it.
a_run_dir <- function() file.path(withr::local_tempdir(.local_envir = parent.frame()), "run")

# The error of launch(), and the lines that it has shown.
failing <- function(..., workers = 1, run_dir) {
  shown <- capture.output(error <- expect_kind(launch(..., workers = workers, run_dir = run_dir), "worker"))
  list(error = error, shown = shown)
}

frames_in <- function(condition) vapply(condition$trace$call, rlang::as_string, "")

test_that("a failure has its backtrace, and each sentence is said once by each", {
  skip_if_fast()
  skip_without_python(tensorflow = TRUE)
  left <- withr::local_tempfile()
  g <- function() stop("no luck")
  f <- function(left) {
    on.exit(file.create(left))
    cat("step 1\n")
    g()
  }
  run_dir <- a_run_dir()
  failed <- failing(f, left, control = launch_control(globals = list(g = g)), run_dir = run_dir)
  expect_match(failed$shown[1], "^tfmuster: 1 worker on this machine")
  expect_equal(failed$shown[-1], c("worker 0 | step 1", "worker 0 | Error in `g()`: no luck"))
  # What tryCatch(..., error = function(e) e$message) reads.
  expect_match(failed$error$message, "^no luck \\(worker 0 on .* failed with exit code 1\\)$")
  expect_match(conditionMessage(failed$error), "Full output: .*worker-0.log")
  expect_no_match(conditionMessage(failed$error), "step 1")
  expect_equal(conditionCall(failed$error$parent), quote(g()))
  expect_equal(frames_in(failed$error$parent), c("f(argument_1)", "g()", "base::stop(\"no luck\")"))
  trace <- "Backtrace:\n 1. f(argument_1)\n 2. g()\n 3. base::stop(\"no luck\")"
  expect_equal(failed$error$traceback, trace)
  log <- paste(readLines(file.path(run_dir, "logs", "worker-0.log")), collapse = "\n")
  expect_equal(log, paste0("step 1\nError in `g()`: no luck\n", trace))
  expect_true(file.exists(left))
  # Both backtraces, and the message once more in the headline alone.
  whole <- format(failed$error, simplify = "branch")
  expect_match(whole, "launch[(].*Caused by error in `g[(][)]`:\n! no luck\n.*2. g[(][)]")
  expect_equal(lengths(regmatches(whole, gregexpr("! no luck\n", whole))), 1)
})

test_that("in another session the lines before the failure are shown, once", {
  skip_if_fast()
  skip_without_python(tensorflow = TRUE)
  fails <- function() {
    cat("step 1\n")
    stop("no luck")
  }
  run <- launch(fails, workers = 1, run_dir = a_run_dir(), wait = FALSE)
  error <- expect_kind(run_values(run), "worker")
  expect_equal(error$found, "Its last lines:\n  step 1")
  expect_equal(frames_in(error$parent)[1], "fails()")
})

test_that("the user's classes, fields and parents survive", {
  skip_if_fast()
  skip_without_python(tensorflow = TRUE)
  fails <- function() {
    inner <- rlang::error_cnd("mine_inner", message = "inside", code = 7)
    rlang::abort(
      c("On top {x}", i = "of it"), class = "mine",
      numbers = 1:3, frame = data.frame(a = factor("b")), home = environment(), fun = mean, parent = inner
    )
  }
  error <- failing(fails, run_dir = a_run_dir(), quiet = TRUE)$error$parent
  expect_s3_class(error, c("mine", "rlang_error"))
  expect_equal(error$numbers, 1:3)
  expect_equal(error$frame, data.frame(a = factor("b")))
  # Not data: they would bring the session of the worker with them.
  expect_false(any(c("home", "fun") %in% names(error)))
  expect_match(rlang::cnd_message(error, inherit = FALSE), "On top [{]x[}]\n. of it$")
  expect_s3_class(error$parent, "mine_inner")
  expect_equal(error$parent$code, 7)
  http <- function() {
    condition <- list(message = "not found", call = sys.call(-1), status = 404L)
    stop(structure(condition, class = c("http_404", "error", "condition")))
  }
  error <- failing(http, run_dir = a_run_dir(), quiet = TRUE)$error$parent
  expect_s3_class(error, "http_404")
  expect_equal(error$status, 404)
  expect_null(conditionCall(error))
  expect_equal(frames_in(error)[1], "http()")
})

test_that("an error of Python has R's frames and Python's", {
  skip_if_fast()
  skip_without_python(tensorflow = TRUE)
  train_it <- function(strategy) {
    digits <- synthetic(1, 64, 64)
    train <- function(model) model$fit(digits$x_train, digits$y_test[0:9])
    train(with(strategy$scope(), mnist_model("softmax")))
  }
  error <- failing(train_it, run_dir = a_run_dir(), quiet = TRUE)$error
  expect_match(conditionMessage(error$parent), "^ValueError: Data cardinality is ambiguous")
  frames <- frames_in(error$parent)
  expect_equal(frames[1], "train_it(strategy = strategy)")
  expect_true(any(grepl("^train[(]", frames)))
  expect_false(any(grepl("stop", frames)))
  expect_match(frames[length(frames)], "^[a-z_]+[(][)] at .*[.]py:[0-9]+$")
  expect_match(error$traceback, "Traceback of Python:\n  File .*[.]py\", line [0-9]+, in ")
})

test_that("an error of the core in a Python method keeps its class and fields, and speaks R", {
  skip_if_fast()
  skip_without_python(tensorflow = TRUE)
  outside <- function(strategy) {
    digits <- synthetic(1, 64, 64)
    mnist_model("softmax")$fit(digits$x_train, digits$y_train)
  }
  run_dir <- a_run_dir()
  failed <- failing(outside, workers = 2, run_dir = run_dir, quiet = TRUE)$error
  error <- failed$parent
  expect_true("distribute" %in% vapply(error$hints, function(hint) hint$option, ""))
  expect_equal(failed$hints, error$hints)
  noted <- jsonlite::read_json(file.path(run_dir, "error.json"))
  expect_equal(noted$fix, error$fix)
  expect_equal(noted$hints, error$hints)
  expect_s3_class(error, "tfmuster_error_strategy")
  expect_equal(error$reason, "not-distributed")
  expect_match(conditionMessage(error), "distribute = TRUE", fixed = TRUE)
})

test_that("what an error of the core in a script says that you do is data, too", {
  skip_if_fast()
  skip_without_python(tensorflow = TRUE)
  wrong <- "at_ssh <- function() launch('s.R', workers = 5, on = on_ssh('node1:2')); at_ssh()"
  withr::local_envvar(TFMUSTER_ALLOW_NESTED = "1")
  for (joins in c("", "made <- strategy('one_device'); ")) {
    script <- withr::local_tempfile(fileext = ".R", lines = c("library(tfmuster)", paste0(joins, wrong)))
    run_dir <- a_run_dir()
    error <- failing(script, run_dir = run_dir, quiet = TRUE)$error
    expect_equal(
      error$hints,
      list(list(option = "hosts", value = "node1:2,node2:2"), list(option = "workers", value = 2L))
    )
    noted <- jsonlite::read_json(file.path(run_dir, "error.json"))
    expect_match(noted$fix, "^Give the hosts more slots")
  }
})

test_that("an error in a callback has its own condition and backtrace", {
  skip_if_fast()
  skip_without_python(tensorflow = TRUE)
  train_it <- function(strategy) {
    look <- function(x) rlang::abort("no look", class = "mine")
    digits <- synthetic(1, 64, 64)
    model <- with(strategy$scope(), mnist_model("softmax"))
    callback <- callback_r(on_epoch_end = function(epoch, logs) look(epoch))
    model$fit(digits$x_train, digits$y_train, callbacks = list(callback), verbose = 0L)
  }
  error <- failing(train_it, run_dir = a_run_dir(), quiet = TRUE)$error
  expect_s3_class(error$parent$parent, "mine")
  expect_equal(error$error, "Error: The R callback on_epoch_end() failed.")
  expect_true(all(c("train_it(strategy = strategy)", "look(epoch)") %in% frames_in(error$parent)))
})

test_that("an infinite recursion is an error, too", {
  skip_if_fast()
  skip_without_python(tensorflow = TRUE)
  down <- function(n) down(n + 1)
  error <- failing(down, 1, run_dir = a_run_dir(), quiet = TRUE)$error
  expect_match(conditionMessage(error$parent), "infinite recursion|C stack")
})

test_that("a long backtrace has its first and its last frames", {
  deep <- function(n) if (n) deep(n - 1) else rlang::trace_back()
  frames <- as_frames(deep(200))
  expect_length(frames$call, most_frames)
  trace <- as_trace(frames)
  expect_equal(trace$parent, seq_len(most_frames) - 1L)
  expect_match(format(trace, simplify = "none")[most_frames + 1], "deep[(]n - 1[)]")
})

test_that("a backtrace of another machine is only shown, whatever is in it", {
  frames <- list(
    call = c("f()", "\033[2Jg()", ""), parent = c(5, 1, 2), visible = c(TRUE, NA, TRUE), scope = NA
  )
  expect_no_match(format(as_trace(frames)), "\033", fixed = TRUE)
  expect_null(as_trace(list(call = character())))
  condition <- as_condition(structure(
    list(message = "m", call = "cat('run')", frames = frames), class = c("error", "condition")
  ))
  expect_output(print(conditionCall(condition)), "cat", fixed = TRUE)
})

test_that("the backtrace of a script's error is in its log, and in error.json", {
  skip_if_fast()
  skip_without_python(tensorflow = TRUE)
  script <- withr::local_tempfile(fileext = ".R", lines = c(
    "library(tfmuster)", "made <- strategy('multi_worker_mirrored')", "read <- function() stop('no data')",
    "prepare <- function() read()", "prepare()"
  ))
  run_dir <- a_run_dir()
  failed <- failing(script, run_dir = run_dir)
  trace <- "Backtrace:\n 1. global prepare()\n 2. global read()\n 3. base::stop(\"no data\")"
  expect_equal(failed$error$traceback, trace)
  expect_null(failed$error$found)
  expect_match(failed$error$message, "exit code 1\\)$")
  expect_match(failed$error$error, "^Error in read[(][)] : no data$")
  expect_equal(frames_in(failed$error$parent), c("prepare()", "read()", "base::stop(\"no data\")"))
  log <- paste(readLines(file.path(run_dir, "logs", "worker-0.log")), collapse = "\n")
  expect_true(endsWith(log, trace))
})

test_that("the classes, fields and parents of a script's condition survive", {
  skip_if_fast()
  skip_without_python(tensorflow = TRUE)
  base <- c(
    "check <- function() {", "  fields <- list(row = 3L, at = as.Date('2024-01-02'), home = environment())",
    "  said <- list(message = 'row 3 is wrong', call = sys.call(-1), long = numeric(1e5))",
    "  stop(structure(c(said, fields), class = c('bad_row', 'error', 'condition')))", "}",
    "train <- function() check()", "train()"
  )
  for (before in list(character(), c("library(tfmuster)", "made <- strategy('one_device')"))) {
    script <- withr::local_tempfile(fileext = ".R", lines = c(before, base))
    run_dir <- a_run_dir()
    error <- failing(script, run_dir = run_dir, quiet = TRUE)$error
    expect_equal(class(error$parent), c("bad_row", "error", "condition"))
    expect_equal(error$parent$row, 3L)
    expect_equal(error$parent$at, as.Date("2024-01-02"))
    # An environment is not data, and long fields are not sent.
    expect_setequal(names(error$parent), c("message", "call", "row", "at", "trace"))
    expect_equal(frames_in(error$parent)[1:2], c("train()", "check()"))
    expect_null(error$condition)
    noted <- jsonlite::read_json(file.path(run_dir, "error.json"), simplifyVector = TRUE)
    expect_equal(noted$classes, class(error$parent))
  }
  script <- withr::local_tempfile(fileext = ".R", lines = c(
    "inner <- function() rlang::abort('inside', class = 'mine_inner', code = 7)",
    "said <- c('On top {x}', i = 'of it')",
    "outer <- function(e) rlang::abort(said, class = 'mine', numbers = 1:3, parent = e)",
    "tryCatch(inner(), error = outer)"
  ))
  error <- failing(script, run_dir = a_run_dir(), quiet = TRUE)$error
  expect_s3_class(error$parent, c("mine", "rlang_error"), exact = FALSE)
  expect_equal(error$parent$numbers, 1:3)
  expect_s3_class(error$parent$parent, "mine_inner")
  expect_equal(error$parent$parent$code, 7)
  whole <- format(error, simplify = "branch")
  # The headline begins with the cause, too.
  times <- c("On top {x}" = 2, "of it" = 1, "! inside" = 1)
  for (said in names(times)) {
    expect_equal(lengths(regmatches(whole, gregexpr(said, whole, fixed = TRUE))), times[[said]])
  }
})

test_that("a condition of another machine is only data", {
  skip_without_python(tensorflow = TRUE)
  text <- function(x) paste(as.character(serialize(x, NULL, version = 2)), collapse = "")
  condition <- structure(list(message = "m", row = 3), class = c("mine", "error", "condition"))
  expect_s3_class(noted_condition(list(condition = text(condition))), "mine")
  for (odd in list(NULL, "", "5", "no", text(7), text(list(mean)), substr(text(condition), 1, 60))) {
    expect_null(noted_condition(list(condition = odd)))
  }
  # The message and the call that R has printed are left.
  said <- script_condition(list(error = "Error in f() : no luck", traceback = "Backtrace:\n 1. global f()"))
  expect_equal(conditionMessage(said), "no luck")
  expect_equal(frames_in(said), "f()")
})
