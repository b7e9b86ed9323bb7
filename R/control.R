#' Settings of launch() that few jobs need
#'
#' @return An object of class `tfmuster_control`, a list of the settings, for the argument `control` of
#'   [launch()].
#' @section Errors: `tfmuster_error_launch` with the reason `argument`.
#' @seealso [launch()], [on_local()]
#' @examplesIf tfmuster_available()
#' values <- launch(
#'   function() Sys.getenv("OMP_NUM_THREADS"), workers = 2, run_dir = tempfile("run"), quiet = TRUE,
#'   control = launch_control(env = c(OMP_NUM_THREADS = "1"))
#' )
#' values[["worker 0"]]
#' @name launch_control
NULL

# `settings`: the arguments of launch_control(), which launch_options.R has, in their order.
new_control <- function(settings, call = rlang::caller_env()) {
  check_settings(settings, call)
  globals <- settings$globals
  if (!is_flag(globals) && !is.character(globals) && !(is.list(globals) && !is.object(globals))) {
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
