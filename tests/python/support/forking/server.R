# Fork R programs of tests from a process that has reticulate and TensorFlow loaded, which takes R four seconds
# of a processor: see server.py, and representative.py, which hands them over.
#
# Usage: Rscript server.R DESCRIPTOR; it listens on DESCRIPTOR.
#
# R reads this file from a descriptor. In a child, that descriptor is the program's, and the last line of this
# file has been read: so R goes on with the program, and treats it as any other.
local({
  cli <- asNamespace("cli")
  stopifnot(c("clic_start_thread", "clic_stop_thread") %in% names(cli))
  prepare <- function() {
    for (package in c("generics", "globals", "rlang")) loadNamespace(package)
    for (module in c("keras", "tensorflow")) reticulate::import(module)
    # It has a thread, which a fork would not have.
    .Call(cli$clic_stop_thread)
  }
  words <- commandArgs()
  script <- normalizePath(sub("--file=", "", grep("^--file=", words, value = TRUE)))
  serving <- reticulate::import_from_path("serving_r", dirname(script))
  pid <- serving$next_child(as.integer(commandArgs(TRUE)), prepare, script)
  .Call(cli$clic_start_thread, cli, cli$clienv$tick_time, cli$clienv$speed_time)
  # What R does with its environment when it starts.
  for (kind in c("LC_COLLATE", "LC_TIME", "LC_MONETARY", "LC_MESSAGES")) Sys.setlocale(kind, "")
  .libPaths(unlist(strsplit(Sys.getenv(c("R_LIBS", "R_LIBS_USER")), ":")))
  tempdir(check = TRUE)
  base <- baseenv()
  unlockBinding("Sys.getpid", base)
  assign("Sys.getpid", function() pid, base)
  suppressWarnings(rm(".Random.seed", envir = globalenv()))
  if (nzchar(prepares <- Sys.getenv("R_TESTS"))) {
    source(prepares)
    # What waits for a package that is loaded here.
    for (prepare in getHook(packageEvent("reticulate", "onLoad"))) prepare("reticulate")
  }
  invisible()
})
