#' tfmuster: TensorFlow on several machines with one command
#'
#' Describe a cluster with [cluster_spec()], check it with [check_cluster()], activate a task of it with
#' [use_tf_config()], and create a strategy with [strategy()]. Train with [train_mnist()], or run your own
#' script with [launch()]. [install_tfmuster()] creates the required Python environment.
#'
#' @section Python:
#' The package is the R interface to a Python core that it includes. Python starts when a function first needs
#' it. reticulate chooses the interpreter; to use another one, set the environment variable
#' `RETICULATE_PYTHON` to the executable, not to the folder of the environment. Only functions that train or
#' load a model import TensorFlow.
#'
#' @section Errors:
#' Every error that tfmuster raises deliberately has the classes `tfmuster_error_<kind>` and `tfmuster_error`.
#' Its fields are `kind`, `found` (what was found), `fix` (what to do), and those of its kind. The kinds are
#' `cluster` (field `findings`), `strategy` (`strategy`, `reason`), `data` (`path`, `reason`), `model`
#' (`reason`), `dependency` (`package`), `launch` (`reason`), `rendezvous`, and `worker`. Warnings have the
#' class `tfmuster_warning`. Other Python errors arrive as reticulate raises them.
#'
#' @importFrom rlang %||% .data
#' @keywords internal
"_PACKAGE"

.onAttach <- function(libname, pkgname) { # nolint: object_name_linter. R's own name.
  give_way()
}

# Exported names that must not mask those of keras3, tensorflow, generics and tidyr. Packages that are
# attached later mask them, as R does.
shared_names <- c("evaluate", "callback_tensorboard", "gather")

# Remove from the attached package what another attached package has. `tfmuster::` still finds it.
give_way <- function(attached = as.environment("package:tfmuster"), search = base::search()) {
  others <- setdiff(grep("^package:", search, value = TRUE), "package:tfmuster")
  taken <- function(name) any(vapply(others, function(other) exists(name, other, inherits = FALSE), TRUE))
  rm(list = Filter(taken, intersect(shared_names, ls(attached))), envir = attached)
}

.onLoad <- function(libname, pkgname) { # nolint: object_name_linter. R's own name.
  keep_virtualenv()
  prefer_python()
  for (package in c("generics", "tensorflow")) register_evaluate(package)
  if (reticulate::py_available()) join_from_r() else setHook("reticulate.onPyInit", join_from_r)
}
