#!/usr/bin/env bash
# Build the R package and run R CMD check on it; an error, a warning or a note is a failure.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
source=$PWD
cd "$folder"
R CMD build --no-build-vignettes "$source"
# The clock is asked for on the internet, and the manual needs LaTeX.
_R_CHECK_SYSTEM_CLOCK_=0 R CMD check --no-manual --ignore-vignettes tfmuster_*.tar.gz
if grep -qE '(ERROR|WARNING|NOTE)$' tfmuster.Rcheck/00check.log; then
  echo "R CMD check is not clean." >&2
  exit 1
fi
