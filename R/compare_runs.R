#' Compare runs
#'
#' Shows the settings in which runs differ, and their metrics side by side.
#'
#' @param runs Two or more runs: a list of them, such as a part of [run_list()], or a character vector of
#'   names, parts of names, or paths of run directories.
#' @param path Path of an HTML page to write: both tables, and for each metric one chart with the curves of
#'   all runs. Default: write none.
#' @return A list of class `tfmuster_comparison`, which prints as two tables. `settings`: a data frame with a
#'   row for each setting that differs, such as `workers`, `seed`, `batch size`, or an option of the program.
#'   Its columns are `setting` and one per run; `NA` where a run has none. `metrics`: a data frame with a row
#'   for each metric and run: `metric`, `run`, `final` (the value of the last epoch), `best` and `best_epoch`
#'   (counted from 1 over all calls of `fit()`). `best` is `NA` if nobody knows whether the metric is to be
#'   small or large.
#' @section Errors: `tfmuster_error_error`: there are fewer than two different runs, a run does not exist, or
#'   the page can't be written.
#' @seealso [run_list()], [run_history()] and [run_view()]
#' @export
#' @examplesIf tfmuster_available()
#' script <- tempfile(fileext = ".R")
#' writeLines("cat('hello')", script)
#' folder <- tempfile("runs")
#' first <- launch(script, workers = 1, run_dir = file.path(folder, "first"), quiet = TRUE)
#' second <- launch(script, workers = 2, run_dir = file.path(folder, "second"), quiet = TRUE)
#' compare_runs(list(first, second))
compare_runs <- function(runs, path = NULL) {
  check_own(runs = "any", path = "name")
  if (inherits(runs, c("tfmuster_run", "tfmuster_values", "tfmuster.Run"))) runs <- list(runs)
  call <- rlang::current_env()
  paths <- lapply(unname(as.list(unclass(runs))), function(run) as_run(run, call = call)$path)
  compared <- run_python("compare_runs", paths, as_path(path))
  names <- as.character(unlist(compared$runs))
  setting_of <- function(run) {
    unname(vapply(compared$settings, function(texts) texts[[run]] %||% NA_character_, ""))
  }
  settings <- c(
    list(setting = names(compared$settings) %||% character()),
    lapply(rlang::set_names(names), setting_of)
  )
  none <- data.frame(
    metric = character(), run = character(), final = numeric(), best = numeric(), best_epoch = integer()
  )
  rows_of <- function(metric) {
    values <- compared$metrics[[metric]]
    lapply(names(values), function(run) data.frame(metric = metric, run = run, as_rows(values[run])))
  }
  rows <- unlist(lapply(names(compared$metrics), rows_of), recursive = FALSE)
  structure(
    list(
      settings = as.data.frame(settings, check.names = FALSE, optional = TRUE),
      metrics = do.call(rbind, c(list(none), rows, list(make.row.names = FALSE)))
    ),
    class = "tfmuster_comparison"
  )
}

#' @export
print.tfmuster_comparison <- function(x, digits = 5, ...) {
  cli::cat_line(cli::style_bold("Settings that differ"))
  if (nrow(x$settings)) print(x$settings, row.names = FALSE, right = FALSE) else cli::cat_line("none")
  cli::cat_line(cli::style_bold("Metrics"))
  if (nrow(x$metrics)) {
    print(x$metrics, row.names = FALSE, right = FALSE, digits = digits)
  } else {
    cli::cat_line("none")
  }
  invisible(x)
}
