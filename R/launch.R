#' Run a script on several workers
#'
#' Starts the script in fresh processes on this machine, or on others through ssh, each with its place in one
#' cluster (free ports are chosen), shows their output line by line with the worker's name in front, and ends
#' all of them when one fails. The script needs to know nothing of tfmuster; Keras 3 is made to work under
#' several workers.
#'
#' An `.R` script is run by this R's `Rscript`, with the library paths and the Python of this session; a
#' `.py` script by this Python.
#'
#' @param script Path of an `.R` or `.py` script, or a command.
#' @param ... Arguments of the script, as `commandArgs(TRUE)` gives them to it.
#' @param workers,ps How many workers and parameter servers. Default: 2 workers; with `hosts`, one per slot.
#' @param chief,evaluator `TRUE` for a chief or an evaluator beside them. Without a chief, worker 0 is it.
#' @param hosts Other machines and how many tasks each takes, `c("node1:2", "node2:2")`. They are reached by
#'   this user's `ssh`, without a password, and need R and a Python with this version of tfmuster.
#' @param copy `TRUE` sends the script to the hosts; else it is there, at the same path.
#' @param files Files and folders to send along with the script, for example modules and data. They keep their
#'   place in the working directory, which is a folder of its own for each worker then, and removed
#'   afterwards.
#' @param remote_python The Python of the hosts that has tfmuster; the path of this session's unless given.
#' @param env A named character vector of more environment variables for every process.
#' @param quiet,only_chief Show nothing but a failure; show the chief's lines only.
#' @param name What the run is called; the script's name unless given.
#' @param run_dir The run directory, which keeps logs, metrics and models; `runs/<time>-<name>` unless
#'   given.
#' @param keras_compat `FALSE` leaves Keras as it is.
#' @param max_restarts How often all are started again after a failure, in the same run directory, from its
#'   last checkpoint (see [checkpoint_callback()]). Bad usage and bad input are not tried again.
#' @param start_timeout How long to wait for everyone, in seconds; `TFMUSTER_START_TIMEOUT`, else 60.
#' @param gpus_per_worker How many of its machine's GPUs each worker sees, and no other worker; 0: none.
#'   Unless given, one, if a machine has as many GPUs as workers; else all workers see all.
#' @param wait `FALSE` returns as soon as the workers run; they go on when this session ends.
#' @return The run, invisibly: a Python object with `path`, `status()`, `logs()`, `history()`, `model()`,
#'   `wait()` and `stop()`.
#' @section Errors: `tfmuster_error_worker` with the first failure's `task` and `exit_code`, after restarts
#'   that of the last attempt; `tfmuster_error_launch` with `reason` when nothing could be started, and with
#'   `findings` when hosts can't take part.
#' @export
#' @examplesIf tfmuster_available()
#' script <- tempfile(fileext = ".R")
#' writeLines("cat('I am', tfmuster::current_task()$name)", script)
#' launch(script, workers = 2, run_dir = tempfile("run"))
launch <- function(script, ..., workers = NULL, ps = 0, chief = FALSE, evaluator = FALSE, hosts = NULL,
                   copy = FALSE, files = character(), remote_python = NULL, env = character(), quiet = FALSE,
                   only_chief = FALSE, name = NULL, run_dir = NULL, keras_compat = TRUE, max_restarts = 0,
                   start_timeout = NULL, gpus_per_worker = NULL, wait = TRUE) {
  arguments <- lapply(unlist(list(...)), as.character)
  run <- rlang::inject(run_python(
    "launch.launch", as_path(script), !!!arguments,
    workers = as_whole(workers), ps = as_whole(ps), chief = chief, evaluator = evaluator,
    hosts = if (!is.null(hosts)) paste(hosts, collapse = ","), copy = copy, files = lapply(files, as_path),
    remote_python = remote_python,
    env = utils::modifyList(list(R_LIBS = library_paths()), as.list(env)), quiet = quiet,
    only_chief = only_chief, name = name, run_dir = as_path(run_dir), keras_compat = keras_compat,
    max_restarts = as_whole(max_restarts), start_timeout = start_timeout,
    gpus_per_worker = as_whole(gpus_per_worker), wait = wait
  ))
  invisible(run)
}

# A worker's R must find the packages that this session has.
library_paths <- function() paste(.libPaths(), collapse = .Platform$path.sep)
