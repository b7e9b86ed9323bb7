# Call the Python core. All calls use one Python function, `outcome`, because an exception that crosses
# reticulate loses its fields.

the <- new.env(parent = emptyenv())

#' Check whether the required Python packages are installed
#'
#' Does not import anything slow. Starts Python if it is not running and there is one to start. Never makes an
#' environment and never downloads: where reticulate would first make one (`py_require()` of reticulate), the
#' answer is `FALSE`. The first function that needs Python then makes it, or [install_tfmuster()] does.
#'
#' @param tensorflow `FALSE` checks only for the packages that clusters, TF_CONFIG, and checks need, without
#'   TensorFlow.
#' @return `TRUE` or `FALSE`.
#' @seealso [install_tfmuster()]
#' @export
#' @examples
#' tfmuster_available()
tfmuster_available <- function(tensorflow = TRUE) {
  check_own(tensorflow = "flag")
  needed <- c("click", "orjson", "yaml", if (tensorflow) c("psutil", "rich", "numpy", "tensorflow", "keras"))
  has_python() && tryCatch(
    length(python_bridge()$missing_modules(as.list(needed))) == 0,
    error = function(e) FALSE
  )
}

# Whether Python runs, or reticulate has one that it would start without making an environment for it.
has_python <- function() {
  if (reticulate::py_available()) {
    return(TRUE)
  }
  managed <- tolower(Sys.getenv("RETICULATE_USE_MANAGED_VENV"))
  if (Sys.getenv("RETICULATE_PYTHON") == "managed" || managed %in% c("true", "1", "yes")) {
    return(FALSE)
  }
  config <- discovered_python()
  makes <- exists("py_require", asNamespace("reticulate")) && !managed %in% c("false", "0", "no")
  # That is the last that reticulate looks for, and it makes an environment before.
  !is.null(config) && !(makes && identical(config$forced, "PATH"))
}

# What reticulate would start, without an environment or a Miniconda of its own making.
discovered_python <- function() {
  without <- c(RETICULATE_USE_MANAGED_VENV = "false", RETICULATE_MINICONDA_ENABLED = "false")
  before <- Sys.getenv(names(without), unset = NA, names = TRUE)
  on.exit({
    Sys.unsetenv(names(before)[is.na(before)])
    if (any(!is.na(before))) do.call(Sys.setenv, as.list(before[!is.na(before)]))
  })
  do.call(Sys.setenv, as.list(without))
  tryCatch(reticulate::py_discover_config("numpy"), error = function(e) NULL)
}

# Call a function of the core. Its errors and warnings become R conditions with the call `call`. `explain`
# returns list(error, parent): what to say of an error, and the R condition that caused it, if there is one.
run_python <- function(target, ..., call = rlang::caller_env(),
                       explain = function(error) list(error = error)) {
  result <- withCallingHandlers(python_bridge(call)$outcome(target, ...), error = function(e) {
    if (grepl("Unable to convert R object to Python type", conditionMessage(e), fixed = TRUE)) {
      refuse_unconverted(list(...), call)
    }
  })
  for (text in result$warnings) {
    warn_tfmuster(text, call)
  }
  if (!is.null(result$error)) {
    explained <- explain(result$error)
    abort_tfmuster(explained$error, call, explained$parent)
  }
  result$value
}

# Name the argument that reticulate can't convert.
refuse_unconverted <- function(given, call) {
  fails <- function(x) tryCatch(is.null(reticulate::r_to_py(x)), error = function(e) TRUE)
  wrong <- which(vapply(given, fails, NA))[1]
  name <- names(given)[wrong]
  what <- if (nzchar(name %||% "")) sprintf("`%s`", name) else "Each argument"
  abort_argument(paste(what, "must be a value that Python has, too."), given[[wrong]], call = call)
}

python_bridge <- function(call = rlang::caller_env()) {
  if (is.null(the$bridge)) {
    bridge <- tryCatch(
      import_core(),
      error = function(e) abort_no_python(e, call)
    )
    check_versions(bridge[["__version__"]], utils::packageVersion("tfmuster"), call)
    # Python's exit hooks never run inside R and would leave temporary files, but R removes this folder.
    bridge$keep_temporary_files_in(tempdir())
    the$bridge <- bridge
  }
  the$bridge
}

import_core <- function() {
  # Use a module that is already imported: a second copy would have different classes.
  if (reticulate::py_available() && "tfmuster" %in% names(reticulate::import("sys")$modules)) {
    return(reticulate::import("tfmuster.r.bridge"))
  }
  reticulate::import_from_path("tfmuster.r.bridge", path = core_path())
}

# The folder with the Python package; launched workers get it on their PYTHONPATH.
core_path <- function() {
  path <- system.file("python", package = "tfmuster")
  if (!dir.exists(file.path(path, "tfmuster"))) {
    abort_tfmuster(list(
      kind = "dependency",
      message = "The Python core of this package is missing.",
      found = paste("no folder", file.path(path, "tfmuster")),
      fix = paste(
        "Install from a tarball made by `R CMD build`, or check out the repository with symbolic links:",
        "inst/python is one, and without them git writes a small text file instead."
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
        fix = "Update the older one: a copy installed with pip hides the one in the R package.",
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
      fix = if (nzchar(chosen <- Sys.getenv("RETICULATE_PYTHON"))) {
        paste0(
          "The environment variable RETICULATE_PYTHON is ", chosen, ". Set it to the executable of a Python ",
          "that starts, or unset it and run tfmuster::install_tfmuster(); then restart R."
        )
      } else {
        paste(
          "Run tfmuster::install_tfmuster(), or set the environment variable RETICULATE_PYTHON to the Python",
          "executable to use; then restart R."
        )
      },
      package = "python"
    ),
    call
  )
}

# These are only hints for reticulate if the user chose no Python. Nothing is installed or started.
prefer_python <- function() {
  if (reticulate::py_available() || nzchar(Sys.getenv("RETICULATE_PYTHON"))) {
    return(invisible())
  }
  if (dir.exists(file.path(reticulate::virtualenv_root(), default_envname))) {
    reticulate::use_virtualenv(default_envname, required = FALSE)
  } else if (exists("py_require", asNamespace("reticulate"))) {
    getExportedValue("reticulate", "py_require")(required_packages(), python_version = python_constraint())
  }
  invisible()
}

# R changes the environment of the process, but `os.environ` is a copy made when Python started. TensorFlow
# and tfmuster must read there what R has set.
share_variables <- function(call = rlang::caller_env()) {
  text <- Sys.getenv("TF_CONFIG", unset = NA)
  ours <- grep("^TFMUSTER_", names(Sys.getenv()), value = TRUE)
  values <- c(list(TF_CONFIG = if (is.na(text)) NULL else text), as.list(Sys.getenv(ours, names = TRUE)))
  python_bridge(call)$adopt_environment(values)
}

# A launched script gets this session's environment variables.
share_environment <- function(call = rlang::caller_env()) {
  bridge <- python_bridge(call)
  variables <- as.list(Sys.getenv())
  if (!asked_for_log(variables$TF_CPP_MIN_LOG_LEVEL)) variables$TF_CPP_MIN_LOG_LEVEL <- NULL
  # The environment that the user has activated may be that of the script.
  of_session <- identical(variables$VIRTUAL_ENV, reticulate::py_config()$virtualenv)
  if (of_session && !is.null(the$virtualenv)) variables$VIRTUAL_ENV <- the$virtualenv
  bridge$adopt_environment(variables, whole = TRUE)
}

# Keep the user's VIRTUAL_ENV: when Python starts, reticulate replaces it by that of the session's Python.
keep_virtualenv <- function() {
  if (!reticulate::py_available() && nzchar(active <- Sys.getenv("VIRTUAL_ENV"))) the$virtualenv <- active
}

# Whether the user chose how much TensorFlow says. keras3 sets the variable when it is loaded, which would
# turn off the filter of what every start of TensorFlow says. Linux keeps what a process began with.
asked_for_log <- function(level, by_keras3 = isNamespaceLoaded("keras3"), begun_with = "/proc/self/environ") {
  if (is.null(level) || !by_keras3 || level != "2") {
    return(TRUE)
  }
  read <- function(file) rawToChar(replace(bytes <- readBin(file, "raw", 1e6), bytes == 0, charToRaw("\n")))
  begun <- if (file.exists(begun_with)) strsplit(read(begun_with), "\n", fixed = TRUE)[[1]]
  any(grepl("^TF_CPP_MIN_LOG_LEVEL=", begun))
}

# R users write `index = 0`, a double; Python needs an integer. NA becomes NaN there, which no check accepts:
# reticulate would pass -2147483648 for an integer NA, and True for a logical one.
as_whole <- function(x) {
  if (is.atomic(x) && length(x) == 1 && is.na(x)) {
    return(NaN)
  }
  whole <- is_number(x) && x == trunc(x) && abs(x) <= .Machine$integer.max
  if (whole) as.integer(x) else x
}

# A path with R's `~`, or NULL.
as_path <- function(x) {
  if (is.character(x) && length(x) == 1 && !is.na(x)) path.expand(x) else x
}
