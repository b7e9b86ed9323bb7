# Give the installed package its vignettes: vignettes.R LIBRARY. R CMD INSTALL makes none from a folder.
#
# They are rendered without running their code, which takes minutes; R CMD build and `make site` run it.
# Only those that have changed are rendered again, into build/vignettes.
needed <- c("knitr", "rmarkdown")
if (!all(vapply(needed, requireNamespace, NA, quietly = TRUE)) || !rmarkdown::pandoc_available()) {
  cat("knitr, rmarkdown or pandoc is missing: the vignettes are left out.\n")
  quit()
}
Sys.setenv(TFMUSTER_VIGNETTES = "text")
library <- commandArgs(trailingOnly = TRUE)
made <- "build/vignettes"
dir.create(made, recursive = TRUE, showWarnings = FALSE)
# What they read, such as troubles.json, makes them all anew.
read <- list.files("vignettes", "[.](json|csv|md)$", full.names = TRUE)
for (source in list.files("vignettes", "[.]Rmd$", full.names = TRUE)) {
  page <- file.path(made, sub("[.]Rmd$", ".html", basename(source)))
  if (!file.exists(page) || file.mtime(page) < max(file.mtime(c(source, read)))) {
    rmarkdown::render(source, output_dir = made, intermediates_dir = tempfile(), quiet = TRUE)
  }
}
doc <- file.path(library, "tfmuster", "doc")
dir.create(doc, showWarnings = FALSE)
copied <- file.copy(list.files(made, "[.]html$", full.names = TRUE), doc, overwrite = TRUE)
stopifnot(copied)
# What R CMD INSTALL does with the vignettes of a tarball.
tools:::.install_package_vignettes2(".", file.path(library, "tfmuster"))
