#' Run a script or an R function on several workers
#'
#' Starts the script or the function in fresh processes on this machine, or on others through ssh, each with
#' its place in one cluster (free ports are chosen), shows their output line by line with the worker's name in
#' front, and ends all of them when one fails. A script needs to know nothing of tfmuster; Keras 3 is made to
#' work under several workers.
#'
#' An `.R` script is run by this R's `Rscript`, with the library paths, the working directory, the environment
#' variables and the Python of this session; a `.py` script by this Python.
#'
#' @section Functions:
#' Each worker calls the function in a fresh `Rscript`, with the `strategy` that is made for it if the
#' function has an argument of that name. What the function uses from this session, its globals, is found by
#' the package globals and goes along, as do the names of the packages that it needs. Function, arguments
#' and globals travel as a file in the run directory that only you can read; so do the values on their way
#' back. To other machines the file is sent, and removed there afterwards.
#'
#' Python objects, such as a model or a tensor, can't travel: build them inside the function. What a function
#' returns may be R objects, a Keras history, which becomes a data frame, or a Keras model, which is loaded
#' into this session.
#'
#' Messages and warnings are shown when they come, with the worker's name in front. The chief's warnings are
#' warnings of this session too in the end, of class `tfmuster_warning_worker`, with the field `task` and the
#' original one as parent.
#'
#' @param script Path of an `.R` or `.py` script, a command, or a function: `function(strategy, ...) {...}`.
#' @param ... Arguments of the script, as `commandArgs(TRUE)` gives them to it, or of the function.
#' @param workers,ps How many workers and parameter servers. Default: 2 workers; with `hosts`, one per slot.
#' @param chief,evaluator `TRUE` for a chief or an evaluator beside them. Without a chief, worker 0 is it.
#' @param backend What starts the processes: `"local"`, `"ssh"`, `"spark"`, `"mpi"`, or a batch system
#'   such as `"slurm"`; `tfmuster launch --help` lists all. Unless given, ssh if there are `hosts`, else this
#'   machine.
#' @param backend_options Settings of the backend's own: of Spark `"spark.executor.memory=4g"`, of mpirun
#'   `"--map-by node"`, of sbatch `"--partition=gpu"`.
#' @param master Spark: the URL of a master, `"spark://node1:7077"` or `"local[4]"`, for a session that is
#'   made for this job.
#' @param spark Spark: a session of pyspark that there is already in this session's Python, in the place of
#'   `master`. See [tf_config_from_barrier()] for sparklyr.
#' @param hosts Other machines and how many tasks each takes, `c("node1:2", "node2:2")`. They are reached by
#'   this user's `ssh`, without a password, and need R and a Python with this version of tfmuster.
#' @param copy `TRUE` sends the script to the hosts; else it is there, at the same path.
#' @param files Files and folders to send along with the script, for example modules and data. They keep their
#'   place in the working directory, which is a folder of its own for each worker then, and removed
#'   afterwards.
#' @param remote_python The Python of the hosts that has tfmuster; the path of this session's unless given.
#' @param env A named character vector of more environment variables for every process.
#' @param quiet,only_chief Show nothing but a failure; show the chief's lines only.
#' @param name What the run is called; the script's or function's name unless given.
#' @param run_dir The run directory, which keeps logs, metrics and models; `runs/<time>-<name>` unless
#'   given.
#' @param keras_compat `FALSE` leaves Keras as it is.
#' @param max_restarts How often all are started again after a failure, in the same run directory, from its
#'   last checkpoint (see [checkpoint_callback()]). Bad usage and bad input are not tried again.
#' @param start_timeout How long to wait for everyone, in seconds; `TFMUSTER_START_TIMEOUT`, else 60.
#' @param gpus_per_worker How many of its machine's GPUs each worker sees, and no other worker; 0: none.
#'   Unless given, one, if a machine has as many GPUs as workers; else all workers see all.
#' @param wait `FALSE` returns as soon as the workers run, or a batch system has the job; they go on when this
#'   session ends.
#' @param args More arguments, as a list: of the script after `...`, or of the function, by name or place.
#' @param strategy Functions only: the name of the strategy that they get, see [strategy()].
#' @param globals Functions only: `TRUE` finds what the function uses; names of more objects, or a named list
#'   of them, go along besides; `FALSE`: nothing goes along.
#' @param packages Functions only: packages to attach besides those that are found.
#' @return Of a script, invisibly the run, a Python object for [run_status()] and its relatives. Of a
#'   function, a list with each worker's value, named `"worker 0"`, `"worker 1"` and so on, whose attribute
#'   `run` is the run; a model comes from the chief alone, the
#'   others have `NULL`. With `wait = FALSE` the run, from which [run_values()] gets the values.
#' @section Errors: `tfmuster_error_worker` with the first failure's `task` and `exit_code`, after restarts
#'   that of the last attempt; if a function failed in R, the original condition is its parent.
#'   `tfmuster_error_launch` with `reason` when nothing could be started, and with `findings` when hosts can't
#'   take part. A warning of class `tfmuster_warning` names an object of more than 500 MB that goes along.
#' @seealso [run_list()] and [view_run()]
#' @export
#' @examplesIf tfmuster_available()
#' offset <- 10
#' values <- launch(function(n) offset + n, 5, workers = 2, run_dir = tempfile("run"))
#' values[["worker 1"]]
#' \dontrun{
#' launch("train.R", "--epochs", 3, workers = 4)
#' }
launch <- function(script, ..., workers = NULL, ps = 0, chief = FALSE, evaluator = FALSE, backend = NULL,
                   backend_options = character(), master = NULL, spark = NULL, hosts = NULL, copy = FALSE,
                   files = character(), remote_python = NULL, env = character(), quiet = FALSE,
                   only_chief = FALSE, name = NULL, run_dir = NULL, keras_compat = TRUE, max_restarts = 0,
                   start_timeout = NULL, gpus_per_worker = NULL, wait = TRUE, args = list(),
                   strategy = "multi_worker_mirrored", globals = TRUE, packages = NULL) {
  check_session(spark)
  given <- c(list(...), as.list(args))
  check_launch(script, given, mget(names(launch_arguments)), strategy = strategy, globals = globals)
  share_environment()
  is_function <- is.function(script)
  if (is_function) {
    called <- substitute(script)
    called <- if (is.symbol(called)) as.character(called) else "fn"
    name <- name %||% called
    run_dir <- as_path(run_dir) %||% run_python("new_run_path", name)
    put_call(run_dir, script, given, called, strategy = strategy, globals = globals, packages = packages)
    on.exit(remove_unused(run_dir), add = TRUE)
    script <- system.file("worker.R", package = "tfmuster", mustWork = TRUE)
    given <- list()
    if (!is.null(hosts) || !(backend %||% "local") %in% "local") {
      # Where they do not share the run directory, this goes there by itself.
      copy <- TRUE
      files <- c(files, call_file(run_dir))
      given <- list(call_file(run_dir))
    }
  }
  show <- session_display()
  on.exit(show$end(), add = TRUE)
  run <- rlang::inject(run_python(
    "launch_shown", show$say, show$glance, as_path(script), !!!script_arguments(given),
    workers = as_whole(workers), ps = as_whole(ps), chief = chief, evaluator = evaluator,
    backend = backend, backend_options = as.list(backend_options), master = master, spark = spark,
    hosts = if (!is.null(hosts)) paste(hosts, collapse = ","), copy = copy,
    files = lapply(files, as_path),
    remote_python = remote_python,
    env = worker_variables(env), quiet = quiet,
    only_chief = only_chief, name = name, run_dir = as_path(run_dir), keras_compat = keras_compat,
    max_restarts = as_whole(max_restarts), start_timeout = start_timeout,
    gpus_per_worker = as_whole(gpus_per_worker), wait = wait,
    parent = function(error) condition_of(run_dir, error$task)
  ))
  if (is_function && wait) values_of(run) else invisible(run)
}

# A worker's R must find the packages that this session has; R_TESTS, of R CMD check, is for this one only.
worker_variables <- function(env) {
  own <- list(R_LIBS = paste(.libPaths(), collapse = .Platform$path.sep))
  if (nzchar(Sys.getenv("R_TESTS"))) own$R_TESTS <- ""
  utils::modifyList(own, as.list(env))
}

# A session of sparklyr is R's own connection to Java, of which Python knows nothing.
check_session <- function(spark, call = rlang::caller_env()) {
  if (!is.null(spark) && !inherits(spark, "python.builtin.object")) {
    abort_tfmuster(list(
      kind = "launch", message = "`spark` must be a session of pyspark in this session's Python.",
      found = paste("an object of class", class(spark)[1]),
      fix = paste(
        "Give the master instead, such as \"spark://node1:7077\". With sparklyr, use",
        "tf_config_from_barrier() inside spark_apply(..., barrier = TRUE)."
      ),
      reason = "spark-session"
    ), call)
  }
}
