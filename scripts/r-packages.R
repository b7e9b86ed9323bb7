# Install from CRAN, into R_LIBS, the R packages that DESCRIPTION names and this machine has not.
read_field <- function(field) {
  names <- strsplit(read.dcf("DESCRIPTION", field)[[1]], ",")[[1]]
  setdiff(trimws(sub("\\(.*", "", names)), "R")
}
required <- read_field("Imports")
wanted <- c(required, read_field("Suggests"), "lintr")
missing_of <- function(packages) packages[!vapply(packages, requireNamespace, logical(1), quietly = TRUE)]

missing <- missing_of(wanted)
if (length(missing)) {
  cat("R packages to install from CRAN:", missing, "\n")
  if (identical(unname(getOption("repos")["CRAN"]), "@CRAN@")) {
    chooseCRANmirror(graphics = FALSE, ind = 1)
  }
  options(timeout = 60)
  try(suppressWarnings(install.packages(missing, lib = Sys.getenv("R_LIBS"), quiet = TRUE)))
}
missing <- missing_of(required)
if (length(missing)) {
  message(
    "*** The R part needs R packages that are not here and could not be installed: ", toString(missing),
    "\n    Debian/Ubuntu: apt-get install ", paste0("r-cran-", missing, collapse = " "),
    "\n    Elsewhere: install.packages() in R. Until then the R part is left out."
  )
  quit(status = 1)
}
