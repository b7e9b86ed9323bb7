test_that("warm workers have imported TensorFlow before a call, and know nothing of the calls before", {
  skip_without_python(tensorflow = TRUE)
  done <- run_r(c(
    "see <- function(given) {",
    "  seen <- list(given = given, pid = Sys.getpid(), warm = nzchar(Sys.getenv('TF2_BEHAVIOR')))",
    "  seen <- c(seen, list(kept = exists('kept', globalenv()), drawn = runif(1), args = commandArgs()))",
    "  assign('kept', 1, globalenv())",
    "  seen",
    "}",
    "look <- function(...) launch(see, ..., quiet = TRUE, seed = 3, run_dir = tempfile('run'))",
    "cold <- look(1, workers = 2)",
    "print(workers(3))",
    "warm <- c(look(2), look(3, workers = 2))",
    "workers(0)",
    "last <- look(4, workers = 1)",
    "stopifnot(!cold[[1]]$warm, !last[[1]]$warm, vapply(warm, function(seen) seen$warm, NA))",
    "stopifnot(length(warm) == 5, !anyDuplicated(vapply(warm, function(seen) seen$pid, 1L)))",
    "stopifnot(identical(vapply(warm, function(seen) seen$given, 1, USE.NAMES = FALSE), c(2, 2, 2, 3, 3)))",
    "stopifnot(!vapply(warm, function(seen) seen$kept, NA))",
    "for (seen in warm) stopifnot(identical(seen$drawn, cold[[1]]$drawn))",
    "for (seen in warm) stopifnot(length(seen$args) == length(cold[[1]]$args))",
    "cat('right\\n')"
    # TensorFlow sets it, also in a session that has run other tests.
  ), env = c(fresh, TF2_BEHAVIOR = NA))
  expect_equal(done$status, 0L, info = done$output)
  expect_identical(utils::tail(done$output, 1), "right")
  expect_true("[1] 3" %in% done$output)
})

test_that("a model trains on warm workers as on new ones", {
  skip_without_python(tensorflow = TRUE)
  done <- run_r(c(
    "train <- function(strategy) {",
    "  keras <- reticulate::import('keras')",
    "  x <- matrix(seq(0, 1, length.out = 640), 80)",
    "  with(strategy$scope(), {",
    "    model <- keras$Sequential(list(keras$Input(reticulate::tuple(8L)), keras$layers$Dense(1L)))",
    "    model$compile('sgd', 'mse')",
    "  })",
    "  model$fit(x, x[, 1, drop = FALSE], epochs = 2L, verbose = 0L)",
    "  model$get_weights()",
    "}",
    "run <- function(...) launch(train, ..., quiet = TRUE, seed = 3, run_dir = tempfile('run'))",
    "cold <- run(workers = 2)",
    "workers(2)",
    "warm <- run()",
    "stopifnot(identical(unclass(cold)[1:2], unclass(warm)[1:2]), identical(warm[[1]], warm[[2]]))",
    "cat('right\\n')"
  ))
  expect_equal(done$status, 0L, info = done$output)
  expect_identical(utils::tail(done$output, 1), "right")
})

test_that("the arguments of workers() are checked", {
  expect_kind(workers(-1), "launch")
  expect_kind(workers(1.5), "launch")
  expect_kind(workers("2"), "launch")
  expect_kind(workers(2, idle = 0), "launch")
  expect_error(workers(-1), "`number` must be a whole number of at least 0")
})
