#!/usr/bin/env bash
# How many lines of python/ and R/ the tests run, in the processes that they start too; both must be 90% at least.
set -uo pipefail

failed=()
"$VENV/bin/coverage" erase
suites=(tests/python)
command -v Rscript >/dev/null && suites+=(tests/parity)
for suite in "${suites[@]}"; do
  "$VENV/bin/coverage" run -m pytest "$suite" || failed+=("$suite")
done
"$VENV/bin/coverage" combine --quiet
"$VENV/bin/coverage" report --fail-under=90 || failed+=("python/")
if command -v Rscript >/dev/null; then
  NOT_CRAN=true Rscript scripts/r-coverage.R || failed+=("R/")
fi
if [ ${#failed[@]} -gt 0 ]; then
  printf 'Failed, or below 90%%: %s\n' "${failed[*]}" >&2
  exit 1
fi
