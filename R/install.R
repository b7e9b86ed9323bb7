default_envname <- "r-tfmuster"

#' Install the Python packages that tfmuster needs
#'
#' Creates a virtual environment and installs TensorFlow and the other required packages in it, from pip's
#' configured package index (about 600 MB). Later sessions find an environment named `r-tfmuster`
#' automatically.
#'
#' @param envname Name or path of the virtual environment. It is created if it does not exist.
#' @param python Path of the Python (3.10 or later) for the environment; `NULL` lets reticulate choose.
#'   reticulate before 1.38 needs Python 3.11 or older and numpy 1, which is then required.
#' @param packages Packages to install, as pip requirements.
#' @param ... Arguments for [reticulate::virtualenv_install()].
#' @param tensorflow Package of TensorFlow: `"tensorflow"`; `"cpu"`, the smaller package tensorflow-cpu (Linux
#'   and Windows); `"cuda"`, with NVIDIA's libraries; `"none"` if the environment already has another one, or
#'   if this machine only launches jobs on other machines.
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
