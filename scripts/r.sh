#!/usr/bin/env bash
# Install the R package into .rlib, and the R packages it needs that the system does not have.
#
#   r.sh            the package, what it imports, and its vignettes
#   r.sh develop    what it suggests, and lintr
set -euo pipefail
# shellcheck source=scripts/step.sh
. scripts/step.sh

if ! command -v Rscript >/dev/null; then
  echo "R is not installed: the R part is left out."
  exit 0
fi
mkdir -p "$RLIB"
if [ "${1:-}" = develop ]; then
  Rscript scripts/r-packages.R develop "$logs/r-packages-develop.log"
elif Rscript scripts/r-packages.R run "$logs/r-packages.log"; then
  step r.log "Installing the R package into .rlib" \
    R CMD INSTALL --no-byte-compile --no-test-load --library="$RLIB" .
  step r-vignettes.log "Making the R package's vignettes" Rscript scripts/vignettes.R "$RLIB"
fi
