#' tfmuster: TensorFlow on several machines, by one command
#'
#' Describe a cluster with [cluster_spec()], check it with [check_cluster()], put a task of it in force with
#' [use_tf_config()], make a strategy with [strategy()], train with [train_mnist()] or with a script of your
#' own under [launch()]. [install_tfmuster()] makes the Python environment that this needs.
#'
#' @section Python:
#' The package is the R face of a Python core that it carries with it. Python starts when a function first
#' needs it, in the interpreter that reticulate chooses; the environment variable `RETICULATE_PYTHON` names
#' another one (the executable, not the environment's folder). No function but those that train or load a
#' model imports TensorFlow.
#'
#' @section Errors:
#' Every error that tfmuster raises on purpose has the classes `tfmuster_error_<kind>` and `tfmuster_error`,
#' with the fields `kind`, `found` (what was found instead), `fix` (what to do) and those of its kind. The
#' kinds: `cluster` (field `findings`), `strategy` (`strategy`, `reason`), `data` (`path`, `reason`),
#' `model` (`reason`), `dependency` (`package`), `launch` (`reason`), `rendezvous`, and `worker`. Warnings
#' have the class `tfmuster_warning`. Errors that come from elsewhere in Python arrive as reticulate raises
#' them.
#'
#' @importFrom rlang %||% .data
#' @keywords internal
"_PACKAGE"

.onLoad <- function(libname, pkgname) { # nolint: object_name_linter. R's own name.
  prefer_python()
}
