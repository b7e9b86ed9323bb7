default_envname <- "r-tfmuster"

#' Install what tfmuster needs from Python
#'
#' Makes a virtual environment with TensorFlow and the few packages that tfmuster needs, and installs them
#' from the package index that pip is configured for (about 600 MB). A later session finds an environment
#' named `r-tfmuster` by itself.
#'
#' @param envname Name or path of the virtual environment; made if it does not exist.
#' @param python Path of the Python (3.10 or later) to make it with; `NULL` lets reticulate choose.
#'   reticulate before 1.38 works with Python 3.11 at most, and with numpy 1, which is then asked for.
#' @param packages What to install, as pip requirements.
#' @param ... Passed on to [reticulate::virtualenv_install()].
#' @param tensorflow Which TensorFlow: `"tensorflow"`; `"cpu"`, the smaller package tensorflow-cpu (Linux and
#'   Windows); `"cuda"`, with NVIDIA's libraries; `"none"` where the environment has another one already, or
#'   where this machine only launches jobs elsewhere.
#' @return The environment's name, invisibly.
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
                             tensorflow = c("tensorflow", "cpu", "cuda", "none")) {
  tensorflow <- rlang::arg_match(tensorflow)
  if (!reticulate::virtualenv_exists(envname)) {
    reticulate::virtualenv_create(envname, python = python, packages = NULL)
  }
  reticulate::virtualenv_install(envname, packages = packages, ...)
  cli::cli_inform(c(
    v = "The environment {.val {envname}} is ready.",
    i = "Restart R, then try {.code tfmuster::tfmuster_available()}."
  ))
  invisible(envname)
}

# As in pyproject.toml; a test compares the two.
required_packages <- function(tensorflow = "tensorflow",
                              reticulate_version = utils::packageVersion("reticulate")) {
  c(
    "click>=8.1",
    "cloudpickle>=3",
    "orjson>=3.9",
    "PyYAML>=6.0",
    "psutil>=5.9",
    "rich>=13",
    if (reticulate_version < "1.38") "numpy>=1.26,<2" else "numpy>=1.26",
    if (tensorflow != "none") {
      c(
        switch(tensorflow,
          tensorflow = "tensorflow>=2.16,<2.22",
          cpu = "tensorflow-cpu>=2.16,<2.22",
          cuda = "tensorflow[and-cuda]>=2.16,<2.22"
        ),
        "keras>=3.10,<3.16"
      )
    }
  )
}
