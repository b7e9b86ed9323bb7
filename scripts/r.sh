#!/usr/bin/env bash
# Install the R package into .rlib, and the R packages it needs if the system has them not.
set -euo pipefail

if ! command -v Rscript >/dev/null; then
  echo "R is not installed: the R part is left out."
  exit 0
fi
mkdir -p "$RLIB"
if Rscript scripts/r-packages.R; then
  R CMD INSTALL --no-byte-compile --no-test-load --library="$RLIB" . >"$RLIB/install.log" 2>&1 || {
    cat "$RLIB/install.log" >&2
    exit 1
  }
  echo "The R package is in .rlib."
fi
