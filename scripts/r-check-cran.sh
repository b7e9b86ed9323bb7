#!/usr/bin/env bash
# Check the R package as CRAN does at a first submission: without a Python for it, with examples of at most 5 s, and
# with CRAN's own rules. Only the notes that a first submission has may come.
#
# Where CRAN can't be reached, URLs, and whether packages are really there, go unchecked.
set -euo pipefail

scripts=$(realpath "$(dirname "$0")")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/tfmuster"
git ls-files -co --exclude-standard -z | tar c --null -T - --ignore-failed-read 2>/dev/null | tar x -C "$folder/tfmuster"
cd "$folder"

# As on CRAN's machines: no environment of a user's, and a cache that is watched for what is left there.
unset RETICULATE_PYTHON NOT_CRAN CI VIRTUAL_ENV
export R_USER_CACHE_DIR="$folder/cache" WORKON_HOME="$folder/envs" PATH=/usr/local/bin:/usr/bin:/bin:$(R RHOME)/bin
export _R_CHECK_CRAN_INCOMING_=true _R_CHECK_EXAMPLE_TIMING_THRESHOLD_=5 _R_CHECK_DEPENDS_ONLY_=${DEPENDS_ONLY:-false}
source "$scripts/r-cran-stand-in.sh"
R CMD build tfmuster
R CMD check --as-cran --no-manual tfmuster_*.tar.gz || true

left=$(find cache envs -type f 2>/dev/null | head -5 || true)
if [ -n "$left" ]; then
  echo "The check has left files in the user's cache: $left" >&2
  exit 1
fi
Rscript - <<'R'
log <- readLines("tfmuster.Rcheck/00check.log")
begin <- grep("^\\* ", log)
parts <- Map(function(from, to) log[from:to], begin, c(begin[-1] - 1, length(log)))
bad <- Filter(function(part) grepl(" \\.\\.\\.( \\[.*\\])? (NOTE|WARNING|ERROR)$", part[1]), parts)
# A first submission; and, where CRAN can't be reached, packages that are on CRAN only.
told <- c(
  "checking CRAN incoming feasibility .* NOTE$", "^Maintainer: ", "^New submission$", "^$",
  "checking package dependencies .* NOTE$", "^Packages? suggested but not available for checking:", "^ +['‘]"
)
unexpected <- Filter(function(line) !any(vapply(told, grepl, TRUE, line)), unlist(bad))
if (length(unexpected)) {
  writeLines(c("R CMD check --as-cran says more than a first submission has to:", unexpected), stderr())
  quit(status = 1)
}
cat("R CMD check --as-cran: only the notes of a first submission:", length(bad), "\n")
R
