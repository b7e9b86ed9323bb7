# Install from CRAN, into R_LIBS, the R packages that this machine does not have. The output goes to a log.
#
#   r-packages.R run LOG        those that DESCRIPTION imports; without them nothing works: exit code 1
#   r-packages.R develop LOG    those that it suggests, lintr, spelling; tests without theirs are skipped
#   r-packages.R keras3 LOG     what make test-keras3 tests; without it: exit code 1
arguments <- commandArgs(trailingOnly = TRUE)
log <- arguments[[2]]
read_field <- function(field) {
  names <- strsplit(read.dcf("DESCRIPTION", field)[[1]], ",")[[1]]
  setdiff(trimws(sub("\\(.*", "", names)), "R")
}
# examples/train.R, which is `make train`, reads its result with jsonlite.
wanted <- switch(arguments[[1]],
  run = c(read_field("Imports"), "jsonlite"),
  develop = c(read_field("Suggests"), "lintr", "spelling"),
  keras3 = c("keras3", "tensorflow", "tfruns", "tfdatasets")
)
missing_of <- function(packages) packages[!vapply(packages, requireNamespace, logical(1), quietly = TRUE)]

# In an R of its own, whose compilers write into the log, too.
install <- function(packages) {
  code <- c(
    "if (identical(getOption('repos')[['CRAN']], '@CRAN@')) chooseCRANmirror(graphics = FALSE, ind = 1)",
    "options(timeout = 60)",
    sprintf("install.packages(%s, lib = Sys.getenv('R_LIBS'))", deparse1(packages))
  )
  dir.create(dirname(log), showWarnings = FALSE, recursive = TRUE)
  system2(file.path(R.home("bin"), "Rscript"), c("-e", shQuote(paste(code, collapse = "; "))), log, log)
}

missing <- missing_of(wanted)
if (length(missing)) {
  cat("Installing R packages from CRAN: ", toString(missing), " ... ", sep = "")
  install(missing)
  missing <- missing_of(missing)
  if (!length(missing)) {
    cat("done\n")
  } else {
    cat("could not install ", toString(missing), "\n    All of the output: ", log, "\n", sep = "")
  }
}
if (length(missing) && arguments[[1]] == "keras3") {
  message(
    "*** These packages are on CRAN only, and could not be installed: ", toString(missing),
    "\n    Run make test-keras3 where R reaches CRAN."
  )
  quit(status = 1)
}
if (length(missing) && arguments[[1]] == "run") {
  writeLines(paste("    |", utils::tail(readLines(log), 15)), stderr())
  message(
    "*** The R part needs R packages that are not here and could not be installed: ", toString(missing),
    "\n    Debian/Ubuntu: apt-get install ", paste0("r-cran-", missing, collapse = " "),
    "\n    Elsewhere: install.packages() in R. Until then the R part is left out."
  )
  quit(status = 1)
}
