#!/usr/bin/env bash
# Build the R package and run R CMD check --as-cran on it; an error, a warning or a note is a failure.
#
#   r-check.sh [--no-vignettes]    leaves out the vignettes, which take some minutes
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# Only what git knows or would know: R CMD build copies all of a folder, environments of gigabytes too, and then
# leaves them out.
mkdir "$folder/tfmuster"
git ls-files -co --exclude-standard -z | tar c --null -T - --ignore-failed-read 2>/dev/null | tar x -C "$folder/tfmuster"
cd "$folder"
build=() check=(--as-cran --no-manual) # the manual needs LaTeX
if [ "${1:-}" = --no-vignettes ]; then
  build=(--no-build-vignettes) check+=(--ignore-vignettes)
fi
R CMD build "${build[@]}" tfmuster

# What needs the internet, where there is none: the clock, CRAN's rules for a first submission, its index of packages.
# keras3 and tfruns are tested where they are installed.
export _R_CHECK_FORCE_SUGGESTS_=false _R_CHECK_SYSTEM_CLOCK_=0
if ! Rscript -e 'readLines("https://cran.r-project.org/src/contrib/PACKAGES", 1)' >/dev/null 2>&1; then
  Rscript -e 'for (f in c("empty/src/contrib", "empty/web/packages")) dir.create(f, recursive = TRUE)' \
    -e 'invisible(file.create("empty/src/contrib/PACKAGES"))' \
    -e 'saveRDS(data.frame(Package = character(), Maintainer = character()), "empty/web/packages/packages.rds")'
  export R_CRAN_WEB="file://$folder/empty" _R_CHECK_XREFS_REPOSITORIES_="file://$folder/empty"
  export _R_CHECK_CRAN_INCOMING_=false
fi
# Workers run while the tests wait for them: whose time it is says nothing here.
export _R_CHECK_EXAMPLE_TIMING_THRESHOLD_=60
R CMD check "${check[@]}" tfmuster_*.tar.gz || true
log=tfmuster.Rcheck/00check.log
# That suggested packages are not here is a note, too, and the only one that is let pass.
allowed="Status: OK"
if grep -qE '^Packages? suggested but not available for checking:' "$log"; then allowed="Status: 1 NOTE"; fi
status=$(grep '^Status:' "$log")
if [ "$status" != "$allowed" ]; then
  cat tfmuster.Rcheck/tests/*.fail 2>/dev/null || true
  echo "R CMD check is not clean: $status" >&2
  exit 1
fi
echo "R CMD check: $status"
