#' Settings of launch() that few jobs need
#'
#' @param ps,chief,evaluator Number of parameter servers; `TRUE` adds a chief or an evaluator. Without a
#'   chief, worker 0 acts as the chief.
#' @param strategy Functions only: the name of the strategy that the function gets, see [strategy()].
#' @param globals Functions only: `TRUE` finds and sends the objects that the function uses. Names of more
#'   objects, or a named list of them, are sent in addition; `FALSE` sends none.
#' @param packages Functions only: packages to attach in addition to those found.
#' @param distribute `TRUE` trains a program that makes no strategy on all workers. Its batches are those of
#'   all workers, so it makes the same updates as in one process.
#' @param scale_batch With `distribute`: `TRUE` multiplies the batch size of `fit()` by the number of workers.
#' @param independent `TRUE` lets each worker train a model of its own. Otherwise a worker that does so fails
#'   with an error of class `tfmuster_error_strategy` and the reason `not-distributed`.
#' @param allow_nested `TRUE` launches the job although this process is a worker of another one. Otherwise
#'   that is refused, because a program that launches itself would do so without end. The workers of the
#'   nested job can't launch another one.
#' @param env A named character vector of additional environment variables for every process.
#' @param gpus_per_worker Number of its machine's GPUs that each worker has for itself; 0 for none. Default:
#'   one if a machine has as many GPUs as workers; otherwise all workers see all GPUs.
#' @param only_chief Show only the chief's lines.
#' @param keras_compat `FALSE` does not patch Keras.
#' @param start_timeout Seconds to wait for all tasks to start. Default: `TFMUSTER_START_TIMEOUT`, else 60.
#' @param stall_timeout Seconds that workers may wait for one that does not move before the job ends with an
#'   error that names it; 0 for no limit. Default: `TFMUSTER_STALL_TIMEOUT`, else 300.
#' @param grace Seconds to write a checkpoint after a shutdown signal (SIGTERM, SIGUSR1) or
#'   `run_stop(save = TRUE)`. After them, the job ends without a checkpoint. Default: `TFMUSTER_GRACE`,
#'   otherwise 30. See [callback_checkpoint()].
#' @param notice_command A shell command that each worker runs every 5 s during `fit` with checkpoints. When
#'   it succeeds, the worker's machine is about to be reclaimed, and the job writes a checkpoint and ends, as
#'   after a signal.
#' @return An object of class `tfmuster_control`, a list of the settings, for the argument `control` of
#'   [launch()].
#' @section Errors: `tfmuster_error_launch` with the reason `argument`.
#' @seealso [launch()], [on_local()]
#' @export
#' @examplesIf tfmuster_available()
#' values <- launch(
#'   function() Sys.getenv("OMP_NUM_THREADS"), workers = 2, run_dir = tempfile("run"), quiet = TRUE,
#'   control = launch_control(env = c(OMP_NUM_THREADS = "1"))
#' )
#' values[["worker 0"]]
launch_control <- function(ps = 0, chief = FALSE, evaluator = FALSE,
                           strategy = "multi_worker_mirrored", globals = TRUE, packages = NULL,
                           distribute = FALSE, scale_batch = FALSE, independent = FALSE,
                           allow_nested = FALSE, env = character(), gpus_per_worker = NULL,
                           only_chief = FALSE, keras_compat = TRUE, start_timeout = NULL,
                           stall_timeout = NULL, grace = NULL, notice_command = NULL) {
  # In the order of the arguments.
  settings <- mget(names(formals(launch_control)))
  call <- rlang::current_env()
  check_settings(settings, call)
  check_arguments(settings["strategy"], c(strategy = "name"), call = call)
  if (!is.logical(globals) && !is.character(globals) && !is.list(globals)) {
    refuse_argument("globals", "TRUE, FALSE, names of objects, or a named list", globals, "launch", call)
  }
  structure(settings, class = "tfmuster_control")
}

#' @export
format.tfmuster_control <- function(x, ...) {
  defaults <- lapply(formals(launch_control), eval)
  set <- Filter(function(name) !identical(x[[name]], defaults[[name]]), names(x))
  shown <- vapply(set, function(name) sprintf("%s = %s", name, short_text(x[[name]])), "")
  sprintf("launch_control(%s)", paste(shown, collapse = ", "))
}

#' @export
print.tfmuster_control <- function(x, ...) {
  cli::cat_line(format(x))
  invisible(x)
}
