#' A page about a run
#'
#' Writes one HTML page with summary, cluster, training curves, what each worker did when, the end of the
#' output, the environment and the first failure, and shows it in the viewer of RStudio or in the browser,
#' whose user is told its path. The page needs no network and runs no script.
#'
#' @inheritParams run_open
#' @param path Where to write it; `NULL`: where the viewer can show it, in the session's temporary folder.
#' @param open Whether to show it.
#' @return The page's path, invisibly.
#' @section Errors: `tfmuster_error_error`: no such run, no folder for the page.
#' @export
#' @examplesIf tfmuster_available()
#' script <- tempfile(fileext = ".R")
#' writeLines("cat('hello')", script)
#' run <- launch(script, workers = 2, run_dir = tempfile("run"))
#' page <- view_run(run, open = FALSE)
#' file.size(page)
view_run <- function(run = NULL, path = NULL, open = interactive()) {
  run <- as_run(run)
  path <- as_path(path) %||% tempfile("run-", fileext = ".html")
  if (!is_text(path) || !dir.exists(dirname(path)) || dir.exists(path)) {
    abort_argument(
      "`path` must be that of a file in a folder that there is.", path, "dir.create() makes the folder."
    )
  }
  path <- run_python("write_report", run, path)
  if (open) {
    viewer <- getOption("viewer")
    if (is.function(viewer)) viewer(path) else open_browser(path, "The page is")
  }
  invisible(path)
}

# Where there is no browser, as on a machine that one is logged in to, what would open it has nothing to say
# that helps, and the address does.
open_browser <- function(address, what) {
  cli::cli_inform(bullet(paste(what, address)))
  browser <- getOption("browser")
  if (!is.character(browser)) {
    utils::browseURL(address, browser)
  } else if (nzchar(browser)) {
    system(paste(browser, shQuote(address)), ignore.stdout = TRUE, ignore.stderr = TRUE, wait = FALSE)
  }
}

#' TensorBoard of a run
#'
#' Give `tensorboard_callback()` to `fit()` or [train_mnist()]: the chief then writes TensorBoard's logs into
#' the run directory, other workers nothing. `tfmuster_tensorboard()` shows them, also while the run goes on.
#'
#' TensorBoard is the Python package tensorboard, which `install_tfmuster()` does not install. It listens on
#' this machine's loopback address only, until its process ends.
#'
#' @param folder Where the logs go; `NULL`: `tensorboard` in the run directory of the job.
#' @inheritParams run_open
#' @param port Where to listen; 0: a free port.
#' @param open Whether to show it.
#' @return `tensorboard_callback()`: a Keras callback. `tfmuster_tensorboard()`, invisibly: a list with `url`
#'   and `pid`, the process to end, for example with [tools::pskill()].
#' @section Errors: `tfmuster_error_dependency`: the Python package tensorboard is missing.
#'   `tfmuster_error_error`: no folder and no job; the run has no such logs.
#' @export
#' @examples
#' \dontrun{
#' train <- function(strategy) {
#'   board <- tensorboard_callback()
#'   train_mnist("cnn", "synthetic", strategy = strategy, callbacks = list(board))$history
#' }
#' values <- launch(train, workers = 2)
#' board <- tfmuster_tensorboard(values)
#' tools::pskill(board$pid)
#' }
tfmuster_tensorboard <- function(run = NULL, port = 0, open = interactive()) {
  board <- run_python("start_tensorboard", as_run(run), port = as_whole(port))
  if (open) open_browser(board$url, "TensorBoard is at")
  invisible(board)
}

#' @rdname tfmuster_tensorboard
#' @export
tensorboard_callback <- function(folder = NULL) {
  check_arguments(list(folder = folder), c(folder = "name"), kind = "error")
  run_python("tensorboard_callback", as_path(folder))
}
