#' Keep workers ready between calls of launch()
#'
#' Starts R processes that become the workers of `launch(function)` on this machine. They import TensorFlow
#' and Keras in advance, so that a call begins to train in about a second. Each call uses new processes, which
#' share no state with earlier calls. Replacements start in the background.
#'
#' Calls without `workers` use this number of workers. A call starts its own processes if these are not ready
#' yet, if its variables in `env` differ, or if the session's environment, library paths or working directory
#' have changed. A process needs about 500 MB. All processes end with the session.
#'
#' @param number Number of processes; 0 ends those that wait.
#' @param idle End the processes after this many seconds without a call. The next call starts them again.
#' @return `number`, invisibly.
#' @section Errors: `tfmuster_error_launch` if `number` or `idle` is not a valid number.
#' @export
#' @examplesIf tfmuster_available()
#' \donttest{
#' workers(2)
#' # Each call uses processes that wait, and new ones replace them.
#' for (call in 1:2) {
#'   seconds <- system.time(
#'     launch(function() Sys.getpid(), run_dir = tempfile("run"), quiet = TRUE)
#'   )[["elapsed"]]
#'   cat("call", call, "took", seconds, "s\n")
#' }
#' workers(0)
#' }
workers <- function(number, idle = 300) {
  check_own(number = "number", idle = "duration", kind = "launch")
  share_environment()
  script <- system.file("worker.R", package = "tfmuster", mustWork = TRUE)
  run_python(
    "warm_workers", list(script), as_whole(number),
    idle = idle, env = worker_variables(character())
  )
  invisible(number)
}
