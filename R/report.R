#' Write and show an HTML report of a run
#'
#' Writes one HTML page with a summary, the cluster, training curves, a timeline of the workers, the end of
#' the output, the environment, and the first failure. Shows it in RStudio's viewer, or in the browser and
#' prints its path. The page needs no network and runs no script.
#'
#' @inheritParams run_open
#' @param path Path of the page. Default: a file in the session's temporary folder, where the viewer can show
#'   it.
#' @param open Whether to show the page.
#' @return The page's path, invisibly.
#' @section Errors: `tfmuster_error_error`: the run or the folder of the page does not exist.
#' @export
#' @examplesIf tfmuster_available()
#' script <- tempfile(fileext = ".R")
#' writeLines("cat('hello')", script)
#' run <- launch(script, workers = 2, run_dir = tempfile("run"))
#' page <- run_view(run, open = FALSE)
#' file.size(page)
run_view <- function(run = NULL, path = NULL, open = interactive()) {
  check_own(path = "name", open = "flag")
  run <- as_run(run)
  path <- as_path(path) %||% tempfile("run-", fileext = ".html")
  if (!is_text(path) || !dir.exists(dirname(path)) || dir.exists(path)) {
    abort_argument(
      "`path` must be the path of a file in an existing folder.", path, "Create it with dir.create()."
    )
  }
  path <- run_python("write_report", run, path)
  if (open) {
    viewer <- getOption("viewer")
    if (is.function(viewer)) viewer(path) else open_browser(path, "The page is")
  }
  invisible(path)
}

# Print the address, and drop the output of the browser: on a remote machine without a browser, its error
# messages don't help, but the address does.
open_browser <- function(address, what) {
  cli::cli_inform(bullet(paste(what, address)))
  browser <- getOption("browser")
  if (!is.character(browser)) {
    utils::browseURL(address, browser)
  } else if (nzchar(browser)) {
    system(paste(browser, shQuote(address)), ignore.stdout = TRUE, ignore.stderr = TRUE, wait = FALSE)
  }
}

#' Show a run in TensorBoard
#'
#' Pass `callback_tensorboard()` to `fit()` or [train_mnist()]: only the chief then writes TensorBoard logs,
#' in the run directory. `tfmuster_tensorboard()` shows them, also while the run is in progress.
#'
#' TensorBoard is the Python package tensorboard, which `install_tfmuster()` does not install. It listens only
#' on this machine's loopback address, until its process ends.
#'
#' @param folder Folder of the logs, which Keras calls `log_dir`. Default: `tensorboard` in the run directory
#'   of the job. Further callbacks of the program use its folders `fit-2` and so on.
#' @param ... More arguments of Keras's callback, such as `histogram_freq`, and `log_dir` instead of `folder`.
#' @inheritParams run_open
#' @param port Port to listen on; 0 chooses a free one.
#' @param open Whether to show TensorBoard.
#' @return `callback_tensorboard()`: a Keras callback. `tfmuster_tensorboard()`, invisibly: a list with `url`
#'   and `pid`, the process to end, for example with [tools::pskill()].
#' @section Errors: `tfmuster_error_dependency`: the Python package tensorboard is missing.
#'   `tfmuster_error_error`: there is no folder and no job, or the run has no such logs.
#' @export
#' @examplesIf tfmuster_available()
#' \donttest{
#' train <- function(strategy) {
#'   board <- callback_tensorboard()
#'   digits <- synthetic(train = 640, test = 64)
#'   train_mnist("softmax", digits, strategy = strategy, epochs = 1, callbacks = list(board))$history
#' }
#' values <- launch(train, workers = 2, run_dir = tempfile("run"), quiet = TRUE)
#' board <- tfmuster_tensorboard(values, open = FALSE)
#' board$url
#' tools::pskill(board$pid)
#' }
tfmuster_tensorboard <- function(run = NULL, port = 0, open = interactive()) {
  check_own(port = "port", open = "flag")
  board <- run_python("start_tensorboard", as_run(run), port = as_whole(port))
  if (open) open_browser(board$url, "TensorBoard is at")
  invisible(board)
}

#' @rdname tfmuster_tensorboard
#' @export
callback_tensorboard <- function(folder = NULL, ...) {
  check_own(folder = "name")
  options <- lapply(list(...), function(value) as_whole(as_path(value)))
  rlang::inject(run_python("tensorboard_callback", as_path(folder), !!!options))
}
