refused <- function(object, ..., kind = "launch") {
  error <- expect_kind(object, kind)
  for (text in c(...)) expect_match(conditionMessage(error), text, fixed = TRUE)
}

test_that("launch() refuses wrong arguments in R's words, before anything starts", {
  skip_without_python()
  withr::local_dir(withr::local_tempdir())
  refused(launch(5), "`script` must be the path of one script", "5")
  refused(launch(c("a.R", "b.R")), "`script` must be")
  refused(launch(~ .x + 1), "`script` must be", "~.x + 1")
  refused(launch("a.R", workers = NA), "`workers` must be a whole number of at least 1.", "NA")
  refused(launch("a.R", workers = c(1, 2)), "`workers` must be", "c(1, 2)")
  refused(launch("a.R", workers = 0), "`workers` must be")
  refused(launch_control(ps = "x"), "`ps` must be a whole number of at least 0.")
  refused(launch_control(ps = NULL), "`ps` must be", "NULL")
  refused(launch_control(chief = "yes"), "`chief` must be TRUE or FALSE.")
  refused(launch("a.R", quiet = NA), "`quiet` must be")
  refused(launch("a.R", wait = "yes"), "`wait` must be")
  refused(launch("a.R", name = 5), "`name` must be one string.")
  refused(launch_control(env = "FOO"), "`env` must be strings with names")
  refused(launch_control(env = list(FOO = NULL)), "`env` must be")
  refused(launch_control(start_timeout = "a"), "`start_timeout` must be a positive number of seconds.")
  refused(launch_control(globals = 5), "`globals` must be")
  refused(launch(function() 1, on = on_ssh("no such host")), "hosts, entry 1")
  expect_length(list.files("runs"), 0)
})

test_that("launch() refuses wrong arguments about training before anything starts", {
  skip_without_python()
  withr::local_dir(withr::local_tempdir())
  for (wrong in list("a", 1.5, -1, NA, c(1, 2), 2^31)) {
    told <- "`seed` must be a whole number from 0 to 2147483647."
    refused(launch("a.R", seed = wrong), told, deparse1(wrong))
  }
  for (wrong in list("5", -1, NA, c(1, 2), Inf)) {
    told <- "`stall_timeout` must be a number of seconds, or 0 for no limit."
    refused(launch_control(stall_timeout = wrong), told, deparse1(wrong))
  }
  for (wrong in list("5", 0, -1, NA, c(1, 2))) {
    refused(launch_control(grace = wrong), "`grace` must be a positive number of seconds.", deparse1(wrong))
  }
  refused(launch_control(notice_command = NA), "`notice_command` must be one string.")
  refused(launch("a.R", control = launch_control(notice_command = "")), "must be")
  for (wrong in list("yes", NA, 1, NULL)) {
    for (flag in c("distribute", "scale_batch", "independent")) {
      given <- stats::setNames(list(wrong), flag)
      refused(rlang::inject(launch_control(!!!given)), sprintf("`%s` must be TRUE or FALSE.", flag))
    }
    refused(on_slurm(requeue = wrong), "`requeue` must be TRUE or FALSE.")
  }
  refused(launch("a.R", worker = 2, distribut = TRUE), "must not have names")
  script <- withr::local_tempfile(fileext = ".R", lines = "stop('started')")
  with_control <- function(program, ...) launch(program, control = launch_control(...))
  refused(with_control(script, scale_batch = TRUE), "scale_batch changes the batch size", "Add distribute,")
  both <- "Workers train one model (distribute) or one each (independent)."
  refused(with_control(script, distribute = TRUE, independent = TRUE), both)
  refused(with_control(function() 1, distribute = TRUE, independent = TRUE), both)
  only <- "jobs that have only workers"
  refused(with_control(script, distribute = TRUE, ps = 1), only, "parameter servers")
  refused(with_control(script, distribute = TRUE, evaluator = TRUE), only, "an evaluator")
  expect_length(list.files(), 0)
})

test_that("arguments that nothing takes are refused with the one that was meant", {
  skip_without_python()
  withr::local_dir(withr::local_tempdir())
  refused(launch("a.R", epochs = 3), "must not have names", "`epochs = 3`", "Write \"--epochs\", 3.")
  refused(launch("a.R", args = list(epochs = 3)), "must not have names")
  refused(launch("a.R", worker = 1), "Did you mean `workers`?")
  refused(launch(function(n) n, 1, worker = 2), "no argument `worker`", "Did you mean `workers`?")
  morrored <- launch_control(strategy = "morrored")
  refused(launch(function(strategy) 1, control = morrored), "There is no strategy", kind = "strategy")
  expect_length(list.files(), 0)
})

test_that("a function that can't be called with its arguments is refused before anything starts", {
  skip_without_python()
  withr::local_dir(withr::local_tempdir())
  needs <- "Every argument of the function must have a value or a default."
  refused(launch(function(x) x), needs, "no value for `x`", "launch(fn, x = value)")
  refused(launch(function(strategy, n, rows, ...) n + rows[1, ], 5), needs, "no value for `rows`")
  refused(launch(function(n) n, 1, 2), "must take the arguments", "unused argument")
  refused(launch(function(strategy) 1, 5), "must take the arguments", "unused argument")
  expect_length(list.files(), 0)
  expect_null(check_call(function(x, y = 2) if (missing(x)) y, list(), NULL))
  expect_null(check_call(function(context) 1, list(), NULL))
  expect_null(check_call(function(strategy, first, ...) first, list(1, 2), NULL))
  expect_null(check_call(function(verbose, n) verbose + n, list(verb = 1, 2), NULL))
  expect_null(check_call(sum, list(1, 2), NULL))
})

test_that("a script gets its arguments as R users write them", {
  given <- list("--steps", 100000, 3, TRUE, 1e-4, 0.1, factor("b"), as.Date("2026-01-01"), list("x", 1:2))
  expect_equal(script_arguments(given), c(
    "--steps", "100000", "3", "TRUE", "0.0001", "0.1", "b", "2026-01-01", "x", "1", "2"
  ))
  expect_null(script_arguments(list()))
})

test_that("what is no cluster, task or strategy is refused by name", {
  skip_without_python()
  refused(tf_config_json(two_workers()), "`task` must be an object from cluster_task().", kind = "cluster")
  refused(use_tf_config("a"), "`task` must be", kind = "cluster")
  refused(cluster_task("a", "worker", 0), "`cluster` must be an object from cluster_spec()", kind = "cluster")
  refused(strategy(5), "`name` must be one string.", kind = "strategy")
  refused(strategy(NULL), "`name` must be", kind = "strategy")
  refused(strategy(keras_compat = "no"), "`keras_compat` must be TRUE or FALSE.", kind = "strategy")
  refused(cluster_task(two_workers(), "worker", NA_integer_), "`index` must be", "NA", kind = "cluster")
  withr::local_envvar(TF_CONFIG = "{bad")
  refused(current_task(), "The environment variable TF_CONFIG", "or unset TF_CONFIG", kind = "cluster")
  refused(train_mnist(verbose = "yes"), "`verbose` must be TRUE, FALSE or 2.", kind = "error")
  refused(mnist(3), "`path` must be one string.", kind = "data")
  refused(synthetic("a"), "`seed` must be a whole number of at least 0.", kind = "data")
  refused(callback_checkpoint(3), "`folder` must be one string.", kind = "checkpoint")
  refused(callback_tensorboard(3), "`folder` must be one string.", kind = "error")
  refused(evaluate_checkpoints(NULL, NULL, verbose = NA), "`verbose` must be TRUE or FALSE.", kind = "error")
  refused(synthetic(train = -1), "`train` must be a whole number of at least 1", kind = "data")
  refused(synthetic(train = "a"), "`train` must be", kind = "data")
})

test_that("train_mnist() refuses what it can't train on or call", {
  skip_without_python()
  refused(train_mnist("softmax", iris), "`dataset` must be a file", "class data.frame", kind = "data")
  refused(train_mnist("softmax", "synthetic", scale_lr = "a"), "`scale_lr` must be TRUE", kind = "error")
  refused(train_mnist("softmax", "synthetic", callbacks = identity), "must be Keras callbacks", kind = "data")
})
