#' The command `tfmuster` for a shell
#'
#' Writes the command, which runs the Python core of this package, and says how a shell finds it.
#' [install_tfmuster()] calls it for the environment that it makes.
#'
#' @param python Path of the Python that runs the command. Default: that of this session.
#' @return The path of the command, invisibly.
#' @section Errors: `tfmuster_error_dependency`: there is no such Python, or this is Windows, where the
#'   command runs in WSL.
#' @export
#' @examples
#' \dontrun{
#' # The command is /home/me/.local/share/R/tfmuster/bin/tfmuster
#' tfmuster_command()
#' }
tfmuster_command <- function(python = NULL) {
  check_own(python = "name", kind = "dependency")
  if (.Platform$OS.type != "unix") {
    abort_tfmuster(list(
      kind = "dependency", message = "The command needs a Unix shell.", found = .Platform$OS.type,
      fix = "Install tfmuster in WSL, and use the command there.", package = "python"
    ))
  }
  if (is.null(python)) {
    if (!has_python()) abort_no_environment()
    python <- reticulate::py_config()$python
  } else {
    check_python(python)
  }
  folder <- file.path(tools::R_user_dir("tfmuster", "data"), "bin")
  dir.create(folder, recursive = TRUE, showWarnings = FALSE)
  command <- file.path(folder, "tfmuster")
  writeLines(c(
    "#!/bin/sh", "# Written by tfmuster_command() of the R package tfmuster.",
    sprintf("PYTHONPATH=%s${PYTHONPATH:+:$PYTHONPATH}", shQuote(core_path())), "export PYTHONPATH",
    sprintf("exec %s -m tfmuster \"$@\"", shQuote(path.expand(python)))
  ), command)
  Sys.chmod(command, "755")
  cli::cli_inform(c(
    v = bullet(paste("The command is", command)),
    i = bullet(sprintf("For your shell's profile: export PATH=%s:\"$PATH\"", shQuote(folder)))
  ))
  invisible(command)
}
