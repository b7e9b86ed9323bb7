# R's manual and vignettes as pages: r-pages.R FOLDER. Uses no network, and a warning is an error.
#
# TFMUSTER_VIGNETTES=text leaves out what vignettes compute, which takes minutes.
options(pkgdown.internet = FALSE, warn = 2)
# Packages that are linked to are loaded, and lubridate warns where the time zone can't be asked for.
if (!nzchar(Sys.getenv("TZ"))) Sys.setenv(TZ = "UTC")
library(pkgdown)
library(tfmuster) # conditions of examples call its functions
# downlit asks CRAN and the sites of other packages for their pages, and has no option against it.
utils::assignInNamespace("CRAN_urls", function() list(Package = character(), URL = character()), "downlit")
utils::assignInNamespace("remote_metadata_slow", function(package) NULL, "downlit")
folder <- commandArgs(trailingOnly = TRUE)
package <- as_pkgdown(".", override = list(destination = folder))
init_site(package)
build_reference(package, examples = FALSE, devel = FALSE, preview = FALSE)
build_articles(package, preview = FALSE)
