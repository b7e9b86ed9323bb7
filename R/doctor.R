#' Check the installation
#'
#' `tfmuster_doctor()` reports the versions of Python, R, and their packages; the chosen Python and the others
#' that were found; the machine, its devices and ports; the engines (ssh, Spark, Slurm, MPI, Kubernetes) that
#' can start jobs from here, or why not; relevant environment variables; and what this means for training on
#' several workers. Print it and paste it into an issue. It also works, and reports why, if Python can't be
#' used, and never makes an environment.
#'
#' `tfmuster_test()` trains briefly on two workers on this machine, each in a separate R process. It prints
#' "You are ready", or what to fix.
#'
#' @param devices Whether to list the devices that TensorFlow finds, in a separate process.
#' @param timeout Time limit in seconds: for listing the devices, or for the job of the test.
#' @return `tfmuster_doctor()`: a list of class `tfmuster_doctor` with `tfmuster`, `python`, `packages`, `r`,
#'   `machine`, `engines`, `environment`, `devices` (`NULL` unless requested), and `notes`, a list of
#'   sentences.
#'   `tfmuster_test()`, invisibly: `TRUE` or `FALSE`.
#' @export
#' @examplesIf tfmuster_available()
#' tfmuster_doctor(devices = FALSE)
#' \donttest{
#' # Starts TensorFlow twice.
#' tfmuster_test()
#' }
tfmuster_doctor <- function(devices = TRUE, timeout = 120) {
  check_own(devices = "flag", timeout = "duration")
  report <- tryCatch(
    {
      if (!has_python()) abort_no_environment()
      share_variables()
      run_python("doctor", devices = devices, timeout = timeout)
    },
    tfmuster_error_dependency = doctor_without_python
  )
  report$python$searched <- searched_pythons()
  structure(report, class = "tfmuster_doctor")
}

#' @rdname tfmuster_doctor
#' @export
tfmuster_test <- function(timeout = 60) {
  check_own(timeout = "duration")
  share_environment()
  script <- system.file("selftest.R", package = "tfmuster", mustWork = TRUE)
  show <- session_display(draw = FALSE)
  env <- worker_variables(character())
  report <- run_python("selftest_shown", show$say, script, timeout = timeout, env = env)
  lines <- unlist(run_python("verdict", report))
  symbol <- if (report$ready) cli::col_green(cli::symbol$tick) else cli::col_red(cli::symbol$cross)
  cli::cat_line(c(paste(symbol, lines[1]), lines[-1]))
  invisible(report$ready)
}

# Asking about Python must not make an environment.
abort_no_environment <- function() {
  abort_tfmuster(list(
    kind = "dependency", message = "There is no Python to ask.",
    found = "none that reticulate would start without making an environment for it",
    fix = paste(
      "Run tfmuster::install_tfmuster(). Or train: where reticulate knows py_require(), the first function",
      "that needs Python makes an environment, which downloads about 600 MB."
    ),
    package = "python"
  ))
}

# The report without Python, if Python can't be used.
doctor_without_python <- function(error) {
  packages <- c("tfmuster", "reticulate", "keras3", "tensorflow")
  version <- function(name) tryCatch(format(utils::packageVersion(name)), error = function(e) NULL)
  list(
    tfmuster = version("tfmuster"),
    python = list(problem = error$found),
    r = list(
      version = as.character(getRversion()), home = R.home(),
      packages = lapply(rlang::set_names(packages), version)
    ),
    machine = list(system = utils::sessionInfo()$running),
    notes = list(error$fix)
  )
}

# The Pythons that reticulate has found, the chosen one first.
searched_pythons <- function() {
  config <- discovered_python()
  unique(c(config$python, config$python_versions))
}

#' @export
print.tfmuster_doctor <- function(x, ...) {
  show_section <- function(label, value, indent) {
    if (is.list(value) && length(value)) {
      cli::cat_line(indent, label, ":")
      for (name in names(value)) show_section(name, value[[name]], paste0(indent, "  "))
    } else {
      shown <- if (length(value)) paste(value, collapse = ", ") else "none"
      cli::cat_line(indent, format(paste0(label, ":"), width = 14), " ", shown)
    }
  }
  for (section in setdiff(names(x), "notes")) {
    show_section(section, x[[section]], "")
  }
  for (note in x$notes) {
    cli::cat_line()
    cli::cat_line(strwrap(note, initial = paste0(cli::symbol$bullet, " "), prefix = "  "))
  }
  invisible(x)
}
