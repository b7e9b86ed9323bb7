# Where launch() runs the workers, and its other settings.
test_that("an object prints what it does, and the command that does the same", {
  skip_without_python()
  expect_equal(format(on_local()), "on_local()")
  ssh <- on_ssh(c("node1:2", "node2"), copy = TRUE)
  expect_equal(format(ssh), "on_ssh(c(\"node1:2\", \"node2\"), copy = TRUE)")
  shown <- capture.output(print(ssh))
  expect_equal(shown[1], format(ssh))
  expect_match(shown[2], "with ssh")
  expect_match(shown[3], "  As a command: tfmuster launch --hosts node1:2,node2:1 --copy .* SCRIPT$")
  slurm <- on_slurm("--partition=gpu", "--time=1:00:00", requeue = TRUE)
  expect_equal(format(slurm), "on_slurm(\"--partition=gpu\", \"--time=1:00:00\", requeue = TRUE)")
  expect_output(print(slurm), "launch --backend=slurm --backend-option=--partition=gpu .*--requeue SCRIPT$")
  expect_output(print(on_mpi("a:2", "--map-by node")), "on_mpi(\"a:2\", \"--map-by node\")", fixed = TRUE)
  expect_output(print(on_spark("local[2]", "spark.executor.memory=4g")), "--master")
  for (batch in list(on_sge("-pe mpi"), on_pbs("-q gpu"), on_lsf("-q gpu"))) {
    expect_output(print(batch), "Submits a job")
  }
  expect_output(print(launch_control(grace = 5, ps = 1)), "launch_control(ps = 1, grace = 5)", fixed = TRUE)
  # What can't be said as a command is left out.
  expect_no_match(capture.output(print(on_ssh())), "As a command")
})

test_that("their arguments are checked where they are made", {
  refused <- function(expr, message) {
    error <- expect_kind(expr, "launch")
    expect_equal(error$reason, "argument")
    expect_match(conditionMessage(error), message, fixed = TRUE)
    error
  }
  error <- refused(on_ssh("a", copy = "yes"), "`copy` must be TRUE or FALSE.")
  expect_equal(as.character(conditionCall(error)[[1]]), "on_ssh")
  refused(on_slurm(partition = "gpu"), "strings without names")
  refused(on_slurm(4), "strings without names")
  refused(on_ssh("a", min_workers = 0), "`min_workers` must be")
  error <- refused(launch_control(ps = -1), "`ps` must be a whole number")
  expect_equal(as.character(conditionCall(error)[[1]]), "launch_control")
  refused(launch_control(globals = 5), "`globals` must be")
  expect_equal(expect_kind(on_spark(spark = list()), "launch")$reason, "spark-session")
  refused(launch(identity, on = "slurm"), "`on` must be an object such as on_local()")
  refused(launch(identity, control = list()), "`control` must be an object from launch_control()")
})

test_that("what does not apply is an error before anything starts", {
  skip_without_python()
  withr::local_dir(withr::local_tempdir())
  writeLines("", "s.R")
  refused <- function(expr, message) {
    error <- expect_kind(expr, "launch")
    expect_match(conditionMessage(error), message, fixed = TRUE)
    error
  }
  refused(launch("s.R", control = launch_control(strategy = "mirrored")), "`strategy` is for functions.")
  refused(launch("s.R", control = launch_control(globals = FALSE)), "`globals` is for functions.")
  refused(launch("s.R", control = launch_control(packages = "stats")), "`packages` is for functions.")
  refused(launch("s.R", on = on_ssh("a", trust_hosts = TRUE)), "`trust_hosts` is for functions.")
  error <- refused(launch("s.R", on = on_ssh("a", files = "nofile.csv")), "The files to send must exist.")
  expect_equal(error$found, "no nofile.csv")
  error <- refused(launch("s.R", 4), "A number alone")
  expect_match(error$fix, "Write workers = 4", fixed = TRUE)
  refused(launch("s.R", files = "s.R", workers = 1), "`files` is for workers on other machines.")
  refused(launch("s.R", copy = TRUE, workers = 1), "`copy` is for workers on other machines.")
  refused(launch("s.R", hosts = "a", on = on_local()), "`hosts` must be set in `on`")
  refused(launch("s.R", env = c(A = "1"), control = launch_control()), "`env` must be set in `control`")
  refused(launch("s.R", workes = 4), "The arguments of a script must not have names.")
  expect_match(expect_kind(launch("s.R", workes = 4), "launch")$fix, "workers")
  expect_match(expect_kind(launch("s.R", requeu = 4), "launch")$fix, "requeue")
  expect_setequal(list.files(), "s.R")
})

test_that("the arguments of earlier versions work, with one notice in a session", {
  skip_if_fast()
  skip_without_python(tensorflow = TRUE)
  withr::local_dir(withr::local_tempdir())
  rlang::reset_message_verbosity("tfmuster_flat")
  of_env <- function() Sys.getenv("TFMUSTER_TEST_OF_MINE")
  notice <- expect_message(
    values <- launch(
      of_env, workers = 1, env = c(TFMUSTER_TEST_OF_MINE = "x"), backend = "local", quiet = TRUE
    ),
    class = "tfmuster_renamed"
  )
  expect_equal(values[[1]], "x")
  moved <- "`backend` of `on_local()`, `env` of `launch_control()`"
  expect_match(conditionMessage(notice), moved, fixed = TRUE)
  expect_match(conditionMessage(notice), "on = on_local(...), control = launch_control(...)", fixed = TRUE)
  expect_no_message(values <- launch(
    of_env, workers = 1, env = c(TFMUSTER_TEST_OF_MINE = "y"), only_chief = TRUE, quiet = TRUE
  ))
  expect_equal(values[[1]], "y")
  # A function's own arguments are the function's.
  own <- function(grace, env) c(grace, env)
  expect_no_message(values <- launch(own, grace = 3, env = 4, workers = 1, quiet = TRUE))
  expect_equal(values[[1]], c(3, 4))
})

test_that("the first line says what runs where, and the last how it ended", {
  skip_if_fast()
  skip_without_python(tensorflow = TRUE)
  folder <- withr::local_tempdir()
  withr::local_dir(folder)
  shown <- capture.output(values <- launch(function() cat("hello\n"), workers = 1, name = "mine"))
  expect_match(shown[1], "^tfmuster: 1 worker on this machine; run directory runs/[0-9TZ]+-mine$")
  expect_equal(shown[2], "worker 0 | hello")
  expect_match(shown[3], "^tfmuster: done in [0-9.]+ s$")
  expect_length(shown, 3)
  run <- NULL
  shown <- capture.output(run <- launch(function() Sys.sleep(60), workers = 1, wait = FALSE, name = "slow"))
  run_stop(run)
  expect_match(shown, "^tfmuster: running; run directory runs/.*-slow$", all = FALSE)
  expect_silent(values <- launch(function() 1, workers = 1, quiet = TRUE))
})

test_that("functions' runs are in the user's cache, without old ones, unless an option names a folder", {
  skip_if_fast()
  skip_without_python(tensorflow = TRUE)
  cache <- withr::local_tempdir()
  withr::local_envvar(R_USER_CACHE_DIR = cache)
  withr::local_options(tfmuster.runs = NULL)
  withr::local_dir(withr::local_tempdir())
  old <- a_run(function_runs(), "20200101T000000Z-old", 1)
  values <- launch(function() 1, workers = 1, quiet = TRUE)
  expect_equal(list.files(), character())
  run <- attr(values, "run")
  expect_equal(normalizePath(dirname(run$path)), normalizePath(function_runs()))
  expect_false(file.exists(old))
  expect_equal(basename(run_open()$path), basename(run$path))
  expect_named(run_list(), basename(run$path))
  # Runs of scripts are in the working directory.
  writeLines("cat('ran\n')", "s.R")
  script <- launch("s.R", workers = 1, quiet = TRUE)
  expect_match(script$path, "/runs/[0-9TZ]+-s$")
  expect_equal(normalizePath(dirname(script$path)), normalizePath("runs"))
  expect_named(run_list(), basename(c(run$path, script$path)))
  mine <- file.path(withr::local_tempdir(), "of", "mine")
  withr::local_options(tfmuster.runs = mine)
  values <- launch(function() 1, workers = 1, quiet = TRUE)
  paths <- c(attr(values, "run")$path, launch("s.R", workers = 1, quiet = TRUE)$path)
  expect_equal(unique(dirname(normalizePath(paths))), normalizePath(mine))
  expect_match(basename(paths[2]), "-s$")
  expect_length(run_list(), 2)
  withr::local_options(tfmuster.runs = 5)
  expect_match(conditionMessage(expect_kind(run_list(), "launch")), "`tfmuster.runs` must be one string")
})
