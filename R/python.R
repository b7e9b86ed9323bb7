# How R reaches the Python core. Everything goes through one Python function, `r_bridge.outcome`, because an
# exception that crosses reticulate by itself loses its fields.

the <- new.env(parent = emptyenv())

#' Is everything there that tfmuster needs from Python?
#'
#' Looks without importing anything slow. Starts Python, if it is not running yet.
#'
#' @param tensorflow `FALSE` asks for what clusters, TF_CONFIG and checks need, and not for TensorFlow.
#' @return `TRUE` or `FALSE`.
#' @seealso [install_tfmuster()]
#' @export
#' @examples
#' tfmuster_available()
tfmuster_available <- function(tensorflow = TRUE) {
  needed <- c("click", "orjson", "yaml", if (tensorflow) c("psutil", "rich", "numpy", "tensorflow", "keras"))
  tryCatch(
    length(python_bridge()$missing_modules(as.list(needed))) == 0,
    error = function(e) FALSE
  )
}

# The result of a function of the core; its errors and warnings become R conditions that blame `call`.
# `parent` gives the R condition that an error comes from, if there is one.
run_python <- function(target, ..., call = rlang::caller_env(), parent = function(error) NULL) {
  result <- python_bridge(call)$outcome(target, ...)
  for (text in result$warnings) {
    warn_tfmuster(text, call)
  }
  if (!is.null(result$error)) {
    abort_tfmuster(result$error, call, parent(result$error))
  }
  result$value
}

python_bridge <- function(call = rlang::caller_env()) {
  if (is.null(the$bridge)) {
    bridge <- tryCatch(
      import_core(),
      error = function(e) abort_no_python(e, call)
    )
    check_versions(bridge[["__version__"]], utils::packageVersion("tfmuster"), call)
    # Inside R, Python's exit hooks never run, and what they would remove stays: R removes this folder itself.
    bridge$keep_temporary_files_in(tempdir())
    the$bridge <- bridge
  }
  the$bridge
}

import_core <- function() {
  # Two copies of one module in one Python would each have classes of their own: an imported one wins.
  if (reticulate::py_available() && "tfmuster" %in% names(reticulate::import("sys")$modules)) {
    return(reticulate::import("tfmuster.r.bridge"))
  }
  reticulate::import_from_path("tfmuster.r.bridge", path = core_path())
}

# The folder that holds the Python package; launched workers get it on their PYTHONPATH.
core_path <- function() {
  path <- system.file("python", package = "tfmuster")
  if (!dir.exists(file.path(path, "tfmuster"))) {
    abort_tfmuster(list(
      kind = "dependency",
      message = "The Python core that this package carries is missing.",
      found = paste("no folder", file.path(path, "tfmuster")),
      fix = paste(
        "Install from a tarball made by `R CMD build`, or check the repository out with symbolic links on:",
        "inst/python is one, and becomes a small text file where git does not make them."
      ),
      package = "tfmuster"
    ))
  }
  path
}

check_versions <- function(python, r, call = rlang::caller_env()) {
  if (!identical(as.character(python), as.character(r))) {
    abort_tfmuster(
      list(
        kind = "dependency",
        message = "The R package tfmuster and its Python core must have the same version.",
        found = sprintf("R package %s, Python core %s", r, python),
        fix = "Update the older one: a copy installed by pip hides the one that the R package carries.",
        package = "tfmuster"
      ),
      call
    )
  }
}

abort_no_python <- function(parent, call) {
  if (inherits(parent, "tfmuster_error")) {
    stop(parent)
  }
  abort_tfmuster(
    list(
      kind = "dependency",
      message = "tfmuster needs Python, and could not start it or load its own Python core.",
      found = sub("\n.*", "", conditionMessage(parent)),
      fix = paste(
        "Run tfmuster::install_tfmuster(), or set the environment variable RETICULATE_PYTHON to the Python",
        "executable to use; then restart R."
      ),
      package = "python"
    ),
    call
  )
}

# Only hints: they count when the user chose no Python, and nothing is installed or started here.
prefer_python <- function() {
  if (reticulate::py_available() || nzchar(Sys.getenv("RETICULATE_PYTHON"))) {
    return(invisible())
  }
  if (dir.exists(file.path(reticulate::virtualenv_root(), default_envname))) {
    reticulate::use_virtualenv(default_envname, required = FALSE)
  } else if (exists("py_require", asNamespace("reticulate"))) {
    getExportedValue("reticulate", "py_require")(required_packages())
  }
  invisible()
}

# R's environment variables are the process's; `os.environ` is a copy made when Python started.
share_tf_config <- function(call = rlang::caller_env()) {
  text <- Sys.getenv("TF_CONFIG", unset = NA)
  python_bridge(call)$adopt_environment(list(TF_CONFIG = if (is.na(text)) NULL else text))
}

# What a launched script is to find in its environment is what this session has.
share_environment <- function(call = rlang::caller_env()) {
  python_bridge(call)$adopt_environment(as.list(Sys.getenv()), whole = TRUE)
}

# R users write `index = 0`, a double; Python wants to see an integer.
as_whole <- function(x) {
  whole <- is.numeric(x) && length(x) == 1 && !is.na(x) && x == trunc(x) && abs(x) <= .Machine$integer.max
  if (whole) as.integer(x) else x
}

# A path with R's `~`, or NULL.
as_path <- function(x) {
  if (is.character(x) && length(x) == 1 && !is.na(x)) path.expand(x) else x
}
