#' What is installed here, and whether it works
#'
#' `tfmuster_doctor()` tells the versions of Python, R and their packages, which Python was chosen and which
#' others were found, the machine, its devices and ports, through which engines (ssh, Spark, Slurm, MPI,
#' Kubernetes) jobs can be started from here and why not through the others, the environment variables that
#' matter, and what all that means for running several workers. Print it, and paste it into an issue. It also
#' works where no Python can be used, and then says why.
#'
#' `tfmuster_test()` trains for a moment on two workers of this machine, each an R process of its own, and
#' says "you are ready", or what to mend.
#'
#' @param devices Whether to start TensorFlow, in a process of its own, and ask which devices it finds.
#' @param timeout Seconds that this may take; of the test, its job.
#' @return `tfmuster_doctor()`: a list of class `tfmuster_doctor` with `tfmuster`, `python`, `packages`, `r`,
#'   `machine`, `engines`, `environment`, `devices` (`NULL` unless asked for) and `notes`, sentences.
#'   `tfmuster_test()`, invisibly: `TRUE` or `FALSE`.
#' @export
#' @examplesIf tfmuster_available()
#' tfmuster_doctor(devices = FALSE)
#' \dontrun{
#' # Starts TensorFlow twice.
#' tfmuster_test()
#' }
tfmuster_doctor <- function(devices = TRUE, timeout = 120) {
  report <- tryCatch(
    {
      share_tf_config()
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
  share_environment()
  script <- system.file("selftest.R", package = "tfmuster", mustWork = TRUE)
  report <- run_python("selftest", script, timeout = timeout, env = worker_variables(character()))
  lines <- unlist(run_python("verdict", report))
  symbol <- if (report$ready) cli::col_green(cli::symbol$tick) else cli::col_red(cli::symbol$cross)
  cli::cat_line(c(paste(symbol, lines[1]), lines[-1]))
  invisible(report$ready)
}

# What R knows alone, if its Python can't be used.
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

# The Pythons that reticulate has looked at, the chosen one first.
searched_pythons <- function() {
  config <- tryCatch(reticulate::py_discover_config("numpy"), error = function(e) NULL)
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
