default_envname <- "r-tfmuster"

#' Install the Python packages that tfmuster needs
#'
#' Creates a virtual environment and installs TensorFlow and the other required packages in it, from pip's
#' configured package index (about 600 MB). Later sessions find an environment named `r-tfmuster`
#' automatically. The command `tfmuster` for a shell comes with it, see [tfmuster_command()].
#'
#' @param envname Name or path of the virtual environment. It is created if it does not exist.
#' @param python Path of the Python for the environment. Default: the newest one here for which TensorFlow has
#'   packages, 3.10 to 3.13. reticulate before 1.38 needs Python 3.11 or older and numpy 1, which is then
#'   required.
#' @param packages Packages to install, as pip requirements.
#' @param ... Arguments for [reticulate::virtualenv_install()].
#' @param tensorflow Package of TensorFlow: `"auto"`, which is `"cuda"` on Linux with an NVIDIA GPU, otherwise
#'   `"tensorflow"`; `"tensorflow"`; `"cpu"`, the smaller package tensorflow-cpu (Linux and Windows);
#'   `"cuda"`, with NVIDIA's libraries; `"none"` if the environment already has another one, or if this
#'   machine only launches jobs on other machines.
#' @return The environment's name, invisibly.
#' @section Errors: `tfmuster_error_dependency` if there is no Python for which TensorFlow has packages.
#' @export
#' @examples
#' \dontrun{
#' # Downloads about 600 MB.
#' install_tfmuster()
#' # Half of it, for a machine without a GPU.
#' install_tfmuster(tensorflow = "cpu")
#' }
install_tfmuster <- function(envname = default_envname, python = NULL,
                             packages = required_packages(tensorflow), ...,
                             tensorflow = c("auto", "tensorflow", "cpu", "cuda", "none")) {
  known <- eval(formals()$tensorflow)
  if (missing(tensorflow)) tensorflow <- known[1]
  if (!is_text(tensorflow) || !tensorflow %in% known) {
    refuse_argument("tensorflow", paste("one of", paste(known, collapse = ", ")), tensorflow, "dependency")
  }
  check_own(envname = "string", python = "name", packages = "paths", kind = "dependency")
  if (!is.null(python)) check_python(python)
  if (!reticulate::virtualenv_exists(envname)) {
    reticulate::virtualenv_create(envname, python = python %||% suitable_python(), packages = NULL)
  }
  reticulate::virtualenv_install(envname, packages = packages, ...)
  tfmuster_command(reticulate::virtualenv_python(envname))
  cli::cli_inform(c(
    v = "The environment {.val {envname}} is ready.",
    i = "Restart R, then try {.code tfmuster::tfmuster_available()}."
  ))
  invisible(envname)
}

# The Pythons that TensorFlow has packages for and that reticulate can load, as in pyproject.toml.
python_versions <- function(reticulate_version = utils::packageVersion("reticulate")) {
  if (reticulate_version < "1.38") 10:11 else 10:13
}

python_constraint <- function(reticulate_version = utils::packageVersion("reticulate")) {
  sprintf(">=3.10,<3.%d", max(python_versions(reticulate_version)) + 1)
}

# The newest Python that is here and fits. With reticulate's pyenv and uv, there may be others than on PATH.
suitable_python <- function(call = rlang::caller_env()) {
  fitting <- rev(python_versions())
  if (exists("virtualenv_starter", asNamespace("reticulate"))) {
    python <- getExportedValue("reticulate", "virtualenv_starter")(python_constraint())
    if (!is.null(python)) {
      return(python)
    }
  }
  found <- Sys.which(c(sprintf("python3.%d", fitting), "python3", "python"))
  found <- unique(unname(found[nzchar(found)]))
  versions <- vapply(found, minor_version, 0L)
  at <- which(versions %in% fitting)
  if (length(at)) {
    return(found[at[which.max(versions[at])]])
  }
  abort_tfmuster(list(
    kind = "dependency",
    message = sprintf("TensorFlow needs Python 3.%d to 3.%d.", min(fitting), max(fitting)),
    found = if (length(found)) {
      paste0(found, " (3.", versions, ")", collapse = ", ")
    } else {
      "no Python on PATH"
    },
    fix = "Install one, for example with reticulate::install_python(\"3.11\"), or give its path as `python`.",
    package = "python"
  ), call)
}

# A Python that the user has chosen.
check_python <- function(python, call = rlang::caller_env()) {
  version <- minor_version(path.expand(python))
  if (!version %in% python_versions()) {
    abort_tfmuster(list(
      kind = "dependency",
      message = sprintf("`python` must be Python %s, for TensorFlow and reticulate.", python_constraint()),
      found = paste0(python, if (is.na(version)) " does not start as Python" else paste0(", 3.", version)),
      fix = "Leave it out to use the newest that fits, or get one with reticulate::install_python().",
      package = "python"
    ), call)
  }
}

# 11 for Python 3.11; NA if it does not answer.
minor_version <- function(python) {
  code <- "import sys, venv; print(sys.version_info[1] if sys.version_info[0] == 3 else 0)"
  said <- suppressWarnings(tryCatch(
    system2(python, c("-c", shQuote(code)), stdout = TRUE, stderr = FALSE),
    error = function(e) character()
  ))
  if (length(said)) suppressWarnings(as.integer(said[1])) else NA_integer_
}

# Whether NVIDIA's driver has a GPU here. Asks no program, because this runs whenever the package is loaded.
has_nvidia_gpu <- function(root = "/", system = Sys.info()[["sysname"]]) {
  files <- c("proc/driver/nvidia/version", "dev/nvidiactl", "usr/lib/wsl/lib/libcuda.so.1")
  system == "Linux" && any(file.exists(file.path(root, files)))
}

# As in pyproject.toml; a test compares the two.
required_packages <- function(tensorflow = "auto",
                              reticulate_version = utils::packageVersion("reticulate"),
                              gpu = has_nvidia_gpu()) {
  if (tensorflow == "auto") tensorflow <- if (gpu) "cuda" else "tensorflow"
  c(
    "click>=8.1",
    "cloudpickle>=3",
    "orjson>=3.9",
    "PyYAML>=6.0",
    "psutil>=5.9",
    "rich>=13",
    "jinja2>=3.1",
    if (reticulate_version < "1.38") "numpy>=1.26,<2" else "numpy>=1.26",
    if (tensorflow != "none") {
      c(
        switch(tensorflow,
          tensorflow = "tensorflow>=2.16,<2.22",
          cpu = "tensorflow-cpu>=2.16,<2.22",
          cuda = "tensorflow[and-cuda]>=2.16,<2.22"
        ),
        "keras>=3.10,<3.16",
        "tensorboard>=2.16"
      )
    }
  )
}
