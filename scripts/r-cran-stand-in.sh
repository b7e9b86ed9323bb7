# Sourced by the checks of the R package, in a folder that holds its source in tfmuster/. Where CRAN can't be reached, one with
# nothing but the names of the packages that this one needs stands in for it.
if ! Rscript -e 'readLines("https://cran.r-project.org/src/contrib/PACKAGES", 1)' >/dev/null 2>&1; then
  Rscript - <<'R'
for (f in c("empty/src/contrib/Meta", "empty/web/packages")) dir.create(f, recursive = TRUE)
fields <- read.dcf("tfmuster/DESCRIPTION", c("Imports", "Suggests"))
needed <- trimws(sub("\\(.*", "", strsplit(paste(fields, collapse = ","), ",")[[1]]))
listed <- sprintf("Package: %s\nVersion: 99.0\nLicense: GPL-3\n", needed)
for (f in c("PACKAGES", "PACKAGES.in")) writeLines(listed, file.path("empty/src/contrib", f))
saveRDS(data.frame(Package = character(), Maintainer = character()), "empty/web/packages/packages.rds")
for (f in c("archive", "current")) saveRDS(list(), sprintf("empty/src/contrib/Meta/%s.rds", f))
for (f in c("aliases", "rdxrefs")) saveRDS(list(), sprintf("empty/src/contrib/Meta/%s.rds", f))
compressed <- gzfile("empty/src/contrib/PACKAGES.gz", "w")
writeLines(listed, compressed)
close(compressed)
names <- c("CRAN", "BioCsoft", "BioCann", "BioCexp")
rows <- sprintf("%s\t%s\tfile://%s/empty\tTRUE\tTRUE\tFALSE\tFALSE", names, names, getwd())
writeLines(c("menu_name\tURL\tdefault\tsource\twin.binary\tmac.binary", rows), "repositories")
R
  export R_REPOSITORIES="$folder/repositories"
  export R_CRAN_WEB="file://$folder/empty" R_CRAN_SRC="file://$folder/empty" _R_CHECK_XREFS_REPOSITORIES_="file://$folder/empty"
  export _R_CHECK_CRAN_INCOMING_SKIP_URL_CHECKS_IF_REMOTE_=true _R_CHECK_SYSTEM_CLOCK_=0 _R_CHECK_FORCE_SUGGESTS_=false
fi
