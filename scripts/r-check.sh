#!/usr/bin/env bash
# Build the R package and run R CMD check --as-cran on it; an error, a warning or a note is a failure.
#
#   r-check.sh [--no-vignettes]    leaves out the vignettes, which take some minutes
set -euo pipefail

scripts=$(realpath "$(dirname "$0")")
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

# CRAN's rules for a first submission are those of r-check-cran.sh. keras3 and tfruns are tested where they are installed.
export _R_CHECK_FORCE_SUGGESTS_=false _R_CHECK_CRAN_INCOMING_=false
source "$scripts/r-cran-stand-in.sh"
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
