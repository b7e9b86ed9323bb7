#' Run a script or an R function on several workers
#'
#' Starts the script or the function in new processes on this machine, or on other machines through ssh, as
#' the tasks of one cluster with free ports. Prefixes each output line with the worker's name, and stops all
#' processes when one fails. A script need not use tfmuster; Keras 3 is patched to work on several workers.
#'
#' This R's `Rscript` runs an `.R` script, with the library paths, working directory, environment variables,
#' and Python of this session. This Python runs a `.py` script.
#'
#' @section Functions:
#' Each worker calls the function in a new `Rscript`. If the function has an argument `strategy`, it gets a
#' strategy created for the worker. The package globals finds the objects of this session that the function
#' uses (its globals) and the packages that it needs. Function, arguments, globals, and return values are
#' saved in files in the run directory that only you can read. The files are sent to other machines and
#' removed there afterwards.
#'
#' Python objects, such as a model or a tensor, can't be sent: create them inside the function. A function can
#' return R objects, a Keras history, which becomes a data frame, or a Keras model, which is loaded into this
#' session. From other machines, R objects must be data (see `trust_hosts`).
#'
#' Messages and warnings appear immediately, prefixed with the worker's name. At the end, the chief's warnings
#' are also raised in this session, with the class `tfmuster_warning_worker`, the field `task`, and the
#' original warning as parent.
#'
#' @param script Path of an `.R` or `.py` script, a command, or a function: `function(strategy, ...) {...}`.
#' @param ... Arguments of the script, which it reads with `commandArgs(TRUE)`, or of the function.
#' @param workers,ps Number of workers and parameter servers. Default: 2 workers; with `hosts`, one per slot.
#' @param chief,evaluator `TRUE` adds a chief or an evaluator. Without a chief, worker 0 acts as the chief.
#' @param backend Engine that starts the processes: `"local"`, `"ssh"`, `"spark"`, `"mpi"`, or a batch system
#'   such as `"slurm"`; `tfmuster launch --help` lists all. Default: `"ssh"` with `hosts`, else `"local"`.
#' @param backend_options Options of the engine: for Spark `"spark.executor.memory=4g"`, for mpirun
#'   `"--map-by node"`, for sbatch `"--partition=gpu"`.
#' @param master Spark: the URL of a master, `"spark://node1:7077"` or `"local[4]"`, for a new Spark session.
#' @param spark Spark: an existing pyspark session in this session's Python, instead of `master`. For
#'   sparklyr, see [tf_config_from_barrier()].
#' @param hosts Other machines with their number of tasks, `c("node1:2", "node2:2")`. Your `ssh` must reach
#'   them without a password, and they need R and a Python with this version of tfmuster.
#' @param copy `TRUE` sends the script to the hosts. Otherwise it must exist there at the same path.
#' @param files Files and folders to send with the script, for example modules and data. They keep their path
#'   relative to the working directory. Each worker then runs in a temporary folder, which is removed
#'   afterwards.
#' @param remote_python Path of the Python on the hosts that has tfmuster. Default: the path of this session's
#'   Python.
#' @param env A named character vector of additional environment variables for every process.
#' @param quiet,only_chief Show only a failure; show only the chief's lines.
#' @param name Name of the run. Default: the name of the script or function.
#' @param run_dir The run directory, which keeps logs, metrics, and models. Default: `runs/<time>-<name>`.
#' @param keras_compat `FALSE` does not patch Keras.
#' @param max_restarts Maximum number of restarts of the whole job after a failure, in the same run directory,
#'   from its last checkpoint (see [callback_checkpoint()]). Usage and input errors are not retried.
#' @param start_timeout Seconds to wait for all tasks to start. Default: `TFMUSTER_START_TIMEOUT`, else 60.
#' @param stall_timeout Seconds that workers may wait for one that does not move before the job ends with an
#'   error that names it; 0 for no limit. Default: `TFMUSTER_STALL_TIMEOUT`, else 300.
#' @param grace Seconds to write a checkpoint after a shutdown signal (SIGTERM, SIGUSR1) or
#'   `run_stop(save = TRUE)`. After them, the job ends without a checkpoint. Default: `TFMUSTER_GRACE`,
#'   otherwise 30. See [callback_checkpoint()].
#' @param notice_command A shell command that each worker runs every 5 s during `fit` with checkpoints. When
#'   it succeeds, the worker's machine is about to be reclaimed, and the job writes a checkpoint and ends, as
#'   after a signal.
#' @param seed Seed of the random number generators of every worker: R's, Python's, NumPy's, TensorFlow's,
#'   and Keras's. A program that sets its own seeds is not affected. Default: `TFMUSTER_SEED`, else drawn from
#'   the generator of this session, so that [set.seed()] before `launch()` makes the job repeatable.
#' @param gpus_per_worker Number of its machine's GPUs that each worker has for itself; 0 for none. Default:
#'   one if a machine has as many GPUs as workers; otherwise all workers see all GPUs.
#' @param distribute `TRUE` trains a program that makes no strategy on all workers. Its batches are those of
#'   all workers, so it makes the same updates as in one process.
#' @param scale_batch With `distribute`: `TRUE` multiplies the batch size of `fit()` by the number of workers.
#' @param independent `TRUE` lets each worker train a model of its own. Otherwise a worker that does so fails
#'   with an error of class `tfmuster_error_strategy` and the reason `not-distributed`.
#' @param wait `FALSE` returns as soon as the workers run, or a batch system has the job. They keep running
#'   after this session ends.
#' @param args More arguments, as a list: of the script after `...`, or of the function, by name or position.
#' @param strategy Functions only: the name of the strategy that the function gets, see [strategy()].
#' @param globals Functions only: `TRUE` finds and sends the objects that the function uses. Names of more
#'   objects, or a named list of them, are sent in addition; `FALSE` sends none.
#' @param packages Functions only: packages to attach in addition to those found.
#' @param trust_hosts Functions only: `TRUE` lets workers on other machines return R objects of any kind.
#'   Reading them lets every host of the job run code in this session, so set this only if you trust all of
#'   them. By default such workers return vectors, factors, data frames, matrices, lists of them, and models:
#'   no functions, formulas, environments, S4 or R6 objects. Workers on this machine may return any R object.
#' @param isolated `TRUE` gives workers on this machine a network of their own, in which they reach only each
#'   other, and nothing else reaches them. Programs that download data then fail. Linux only.
#' @param warm On this machine or over ssh, with `max_restarts`: `TRUE` keeps a process ready for each worker,
#'   with TensorFlow and Keras imported, so that a restart takes half the time. It needs about 500 MB for each.
#' @param requeue `TRUE`, for Slurm: write a checkpoint two minutes before the time limit, requeue the job,
#'   and resume it. After preemption or a lost node it resumes from the newest checkpoint.
#' @param min_workers With hosts and `max_restarts`: a host that is lost and does not come back is left out at
#'   the restart, as long as so many workers are left. They make the same updates, with the same global
#'   batches. Default: all workers are needed.
#' @param rejoin_timeout With `min_workers`: seconds that a lost host may take to come back.
#' @param hosts_from In place of `hosts`: a shell command that prints a line `host:slots` for each host. It is
#'   asked at the start, and again at each restart.
#' @param grow With `min_workers`: seconds between two looks for hosts that are back or, with `hosts_from`,
#'   new.
#'   The workers then write a checkpoint and start again, with at most `workers` of them.
#' @return For a script, invisibly the run, see [tfmuster_run] and [run_status()]. For a function, a list of
#'   the workers' values, named `"worker 0"`, `"worker 1"`, and so on, with the run in the attribute `run`.
#'   Only the chief returns a model; the others have `NULL`. With `wait = FALSE` the run; [run_values()] gets
#'   the values.
#' @section Errors: `tfmuster_error_worker` with `task` and `exit_code` of the first failure, after restarts
#'   that of the last attempt. If a function failed, the original condition is the parent, with its classes,
#'   its fields that are data, and its backtrace from the function on: R's frames and, for an error of Python,
#'   Python's. [rlang::last_trace()] shows both. The field `traceback`, the worker's log, and `error.json`
#'   have them as text, for a script from [strategy()] on.
#'   `tfmuster_error_launch` with `reason` if nothing could be started, and with `findings` if hosts can't be
#'   used. A warning of class `tfmuster_warning` names an object of more than 500 MB that is sent.
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
                   start_timeout = NULL, stall_timeout = NULL, grace = NULL, notice_command = NULL,
                   seed = NULL, gpus_per_worker = NULL, distribute = FALSE, scale_batch = FALSE,
                   independent = FALSE, wait = TRUE, args = list(),
                   strategy = "multi_worker_mirrored", globals = TRUE, packages = NULL,
                   trust_hosts = FALSE, isolated = FALSE, warm = FALSE, requeue = FALSE,
                   min_workers = NULL, rejoin_timeout = 30, hosts_from = NULL, grow = NULL) {
  check_session(spark)
  given <- c(list(...), as.list(args))
  check_launch(script, given, mget(names(launch_arguments)), strategy = strategy, globals = globals)
  share_environment()
  is_function <- is.function(script)
  if (is_function) {
    called <- substitute(script)
    called <- if (is.symbol(called)) as.character(called) else "fn"
    name <- name %||% called
    hosts_text <- if (!is.null(hosts)) paste(hosts, collapse = ",")
    free <- run_python("any_values", hosts_text, backend, trust_hosts)
    claim <- run_python("claim_call", name, as_path(run_dir), any_values = free)
    # Removes only what the claim has made, and nothing once a run has begun there.
    on.exit(claim$release(), add = TRUE)
    run_dir <- format(claim$path)
    digest <- put_call(
      run_dir, script, given, called,
      strategy = strategy, globals = globals, packages = packages, plain = !free
    )
    script <- system.file("worker.R", package = "tfmuster", mustWork = TRUE)
    given <- list(digest)
    if (!is.null(hosts) || !(backend %||% "local") %in% "local") {
      # Send the file, because the machines may not share the run directory.
      copy <- TRUE
      files <- c(files, call_file(run_dir))
      given <- list(digest, run_python("place_of", call_file(run_dir)))
    }
  }
  show <- session_display()
  shown <- wait && !(quiet || only_chief)
  on.exit(show$end(), add = TRUE)
  launched <- rlang::inject(run_python(
    "launch_shown", show$say, show$glance, as_path(script), !!!script_arguments(given),
    workers = as_whole(workers), ps = as_whole(ps), chief = chief, evaluator = evaluator,
    backend = backend, backend_options = as.list(backend_options), master = master, spark = spark,
    hosts = if (!is.null(hosts)) paste(hosts, collapse = ","), copy = copy,
    files = lapply(files, as_path),
    remote_python = remote_python,
    env = worker_variables(env), quiet = quiet,
    only_chief = only_chief, name = name, run_dir = as_path(run_dir), keras_compat = keras_compat,
    max_restarts = as_whole(max_restarts), start_timeout = start_timeout,
    stall_timeout = stall_timeout, grace = grace, notice_command = notice_command,
    seed = as_whole(seed %||% drawn_seed()),
    gpus_per_worker = as_whole(gpus_per_worker),
    distribute = distribute, scale_batch = scale_batch, independent = independent, wait = wait,
    isolated = isolated, warm = warm, requeue = requeue, min_workers = as_whole(min_workers),
    rejoin_timeout = rejoin_timeout, hosts_from = hosts_from, grow = grow,
    explain = function(error) failure_of(error, if (is_function) run_dir, shown)
  ))
  run <- new_run(format(launched$path))
  if (is_function && wait) values_of(run) else invisible(run)
}

# With TFMUSTER_SEED, Python takes the seed from there.
drawn_seed <- function() if (!nzchar(Sys.getenv("TFMUSTER_SEED"))) sample.int(.Machine$integer.max, 1)

# A worker's R must find this session's packages. R_TESTS, set by R CMD check, is for this session only.
worker_variables <- function(env) {
  own <- list(R_LIBS = paste(.libPaths(), collapse = .Platform$path.sep))
  if (nzchar(Sys.getenv("R_TESTS"))) own$R_TESTS <- ""
  utils::modifyList(own, as.list(env))
}

# A sparklyr session is R's own connection to Java, which Python can't use.
check_session <- function(spark, call = rlang::caller_env()) {
  if (!is.null(spark) && !inherits(spark, "python.builtin.object")) {
    abort_tfmuster(list(
      kind = "launch", message = "`spark` must be a session of pyspark in this session's Python.",
      found = paste("an object of class", class(spark)[1]),
      fix = paste(
        "Pass `master` instead, such as \"spark://node1:7077\". With sparklyr, use",
        "tf_config_from_barrier() inside spark_apply(..., barrier = TRUE)."
      ),
      reason = "spark-session"
    ), call)
  }
}
