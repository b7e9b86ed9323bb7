#' What is installed here
#'
#' Versions of Python, R and their packages, the machine, the environment variables that matter, and what
#' all that means for running several workers. Print it, and paste it into an issue.
#'
#' @param devices `TRUE` starts TensorFlow, in a process of its own, and asks which devices it finds.
#' @param timeout Seconds that this may take.
#' @return A list of class `tfmuster_doctor` with `tfmuster`, `python`, `packages`, `r`, `machine`,
#'   `environment`, `devices` (`NULL` unless asked for) and `notes`, sentences.
#' @export
#' @examplesIf tfmuster_available()
#' tfmuster_doctor()
tfmuster_doctor <- function(devices = FALSE, timeout = 120) {
  share_tf_config()
  report <- run_python("doctor.doctor", devices = devices, timeout = timeout)
  structure(report, class = "tfmuster_doctor")
}

#' @export
print.tfmuster_doctor <- function(x, ...) {
  show_section <- function(label, value, indent) {
    if (is.list(value)) {
      cli::cat_line(indent, label, ":")
      for (name in names(value)) show_section(name, value[[name]], paste0(indent, "  "))
    } else {
      shown <- if (length(value)) paste(value, collapse = ", ") else "none"
      cli::cat_line(indent, format(paste0(label, ":"), width = 15), shown)
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
