#' Run a script or an R function on several workers
#'
#' Starts the script or the function in new processes on this machine, or on other machines through ssh, as
#' the tasks of one cluster with free ports. Prefixes each output line with the worker's name, shows a line
#' that all workers print alike once, and stops all processes when one fails. A script need not use tfmuster;
#' Keras 3 is patched to work on several workers.
#'
#' This R's `Rscript` runs an `.R` script, with the library paths, working directory, environment variables,
#' and Python of this session. This Python runs a `.py` script. If it has no TensorFlow, the script runs on
#' this machine in the first environment that has it: `VIRTUAL_ENV`, `CONDA_PREFIX`, or `.venv` beside the
#' script.
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
#' session. From other machines, R objects must be data (see `trust_hosts` of [on_ssh()]).
#'
#' Messages and warnings appear immediately, prefixed with the worker's name. At the end, the chief's warnings
#' are also raised in this session, with the class `tfmuster_warning_worker`, the field `task`, and the
#' original warning as parent.
#'
#' @section Where runs are kept:
#' The first line that `launch()` shows says what runs where, and where the run directory is. That of a script
#' is `runs/<time>-<name>` in the working directory. That of a function is in your cache,
#' `tools::R_user_dir("tfmuster", "cache")`, where `launch()` removes runs of functions that ended 30 days
#' ago. `options(tfmuster.runs = "FOLDER")` keeps all runs in a folder of your own, and removes none.
#'
#' @param script Path of an `.R` or `.py` script, a command, or a function: `function(strategy, ...) {...}`.
#' @param ... Arguments of the script, which it reads with `commandArgs(TRUE)`, or of the function.
#' @param workers Number of workers. Default: one per slot of the hosts, otherwise 2.
#' @param on Where the workers run: [on_local()], [on_ssh()], [on_slurm()], [on_sge()], [on_pbs()],
#'   [on_lsf()], [on_mpi()] or [on_spark()].
#' @param control More settings, see [launch_control()].
#' @param max_restarts Maximum number of restarts of the whole job after a failure, in the same run directory,
#'   from its last checkpoint (see [callback_checkpoint()]). Usage and input errors are not retried.
#' @param seed Seed of the random number generators of every worker: R's, Python's, NumPy's, TensorFlow's,
#'   and Keras's. A program that sets its own seeds is not affected. Default: `TFMUSTER_SEED`, else drawn from
#'   the generator of this session, so that [set.seed()] before `launch()` makes the job repeatable.
#' @param name Name of the run. Default: the name of the script or function.
#' @param run_dir The run directory, which keeps logs, metrics, and models. Default: see "Where runs are
#'   kept".
#' @param quiet `TRUE` shows only a failure.
#' @param wait `FALSE` returns as soon as the workers run, or a batch system has the job. They keep running
#'   after this session ends. In RStudio a background job shows them.
#' @param args More arguments, as a list: of the script after `...`, or of the function, by name or position.
#' @return For a script, invisibly the run, see [tfmuster_run] and [run_status()]. For a function, a list of
#'   the workers' values, named `"worker 0"`, `"worker 1"`, and so on, with the run in the attribute `run`.
#'   Only the chief returns a model; the others have `NULL`. With `wait = FALSE` the run; [run_values()] gets
#'   the values.
#' @section Errors: `tfmuster_error_worker` with `task` and `exit_code` of the first failure, after restarts
#'   that of the last attempt. If a function or an R script failed, the original condition is the parent,
#'   with its classes, its fields that are data (of a script, up to 25 kB each), and its backtrace: R's frames
#'   and, for an error of Python, Python's. [rlang::last_trace()] shows both. The field `traceback`, the
#'   worker's log, and `error.json` have the backtrace as text.
#'   `tfmuster_error_launch` with `reason` if nothing could be started, and with `findings` if hosts can't be
#'   used. A warning of class `tfmuster_warning` names an object of more than 500 MB that is sent.
#' @seealso [run_list()] and [run_view()]
#' @export
#' @examplesIf tfmuster_available()
#' offset <- 10
#' values <- launch(function(n) offset + n, 5, workers = 2, run_dir = tempfile("run"))
#' values[["worker 1"]]
#' \dontrun{
#' launch("train.R", "--epochs", 3, workers = 4)
#' launch("train.R", on = on_ssh(c("node1:2", "node2:2"), copy = TRUE), max_restarts = 3)
#' }
launch <- function(script, ..., workers = NULL, on = on_local(), control = launch_control(), max_restarts = 0,
                   seed = NULL, name = NULL, run_dir = NULL, quiet = FALSE, wait = TRUE, args = list()) {
  check_own(script = "script", args = "values", kind = "launch")
  called <- substitute(script)
  given <- c(list(...), as.list(args))
  check_launch(script, given, on, control, list(
    workers = workers, max_restarts = max_restarts, seed = seed, name = name, run_dir = run_dir,
    quiet = quiet, wait = wait
  ))
  share_environment()
  is_function <- is.function(script)
  if (is_function && is.null(name)) name <- if (is.symbol(called)) as.character(called) else "fn"
  where <- where_of(on)
  # Reading objects that are more than data runs code that the workers' machines choose.
  any <- is_function && run_python("any_values", where)
  claim <- claim_for(script, name, given, run_dir, any)
  # Removes only what the claim has made, and nothing once a run has begun there.
  if (!is.null(claim)) on.exit(claim$release(), add = TRUE)
  run_dir <- if (is.null(claim)) as_path(run_dir) else format(claim$path)
  if (is_function) {
    sent <- send_function(script, given, called, run_dir, control, where, plain = !any)
    where <- sent$where
    script <- sent$script
    given <- sent$given
  }
  show <- session_display()
  on.exit(show$end(), add = TRUE)
  shown <- wait && !(quiet || control$only_chief)
  job <- unclass(control)[setdiff(names(control), c("globals", "packages"))]
  job <- with_whole_numbers(job)
  job$env <- lapply(worker_variables(job$env), as.character)
  launched <- rlang::inject(run_python(
    "launch_shown", show$say, show$glance, as_path(script), !!!script_arguments(given),
    workers = as_whole(workers), max_restarts = as_whole(max_restarts),
    seed = as_whole(seed %||% drawn_seed()), name = name, run_dir = run_dir, quiet = quiet, wait = wait,
    on = where, control = job,
    explain = function(error) failure_of(error, if (is_function) run_dir, shown)
  ))
  run <- new_run(format(launched$path))
  show_in_pane(run, wait, quiet)
  if (is_function && wait) values_of(run) else invisible(run)
}

# Show a run in the pane of background jobs, if there is one. A display never ends a job.
show_in_pane <- function(run, wait, quiet) {
  if (!wait && !quiet && has_jobs_pane()) {
    tryCatch(run_in_rstudio(run), error = function(e) warn_tfmuster(conditionMessage(e)))
  }
}

# The run directory, if it is to be made before the job starts: for a function, or in the folder of an option.
claim_for <- function(script, name, given, run_dir, any, call = rlang::caller_env()) {
  folder <- runs_folder(is.function(script), call)
  if (is.function(script)) {
    if (is.null(run_dir)) remove_old_runs(folder)
    run_python("claim_call", name, as_path(run_dir), any_values = any, runs = folder, call = call)
  } else if (is.null(run_dir) && !is.null(getOption("tfmuster.runs"))) {
    name <- name %||% run_python("command_name", as.list(c(script, script_arguments(given))))
    run_python("claim_run_dir", name, runs = folder, call = call)
  }
}

# Send a function: returns the script to run, its arguments, and where, with the file to send.
send_function <- function(fn, given, called, run_dir, control, where, plain, call = rlang::caller_env()) {
  elsewhere <- !is.null(where[["hosts"]]) || !where$backend %in% "local"
  digest <- put_call(
    run_dir, fn, given, if (is.symbol(called)) as.character(called) else "fn",
    strategy = control$strategy, globals = control$globals, packages = control$packages,
    plain = plain, call = call
  )
  arguments <- list(digest)
  if (elsewhere) {
    # Send the file, because the machines may not share the run directory.
    where$copy <- TRUE
    where$files <- c(where$files, call_file(run_dir))
    arguments <- list(digest, run_python("place_of", call_file(run_dir)))
  }
  worker <- system.file("worker.R", package = "tfmuster", mustWork = TRUE)
  list(script = worker, given = arguments, where = where)
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
