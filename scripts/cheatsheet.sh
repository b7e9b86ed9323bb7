#!/usr/bin/env bash
# Print docs/cheatsheet.html to docs/cheatsheet.pdf, a page of A4.
set -euo pipefail
profile=$(mktemp -d)
trap 'rm -rf "$profile"' EXIT
chromium --headless --no-sandbox --disable-gpu --disable-background-networking --no-pdf-header-footer \
  --user-data-dir="$profile" --print-to-pdf=docs/cheatsheet.pdf "file://$PWD/docs/cheatsheet.html"
qpdf --show-npages docs/cheatsheet.pdf
