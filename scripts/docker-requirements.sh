#!/usr/bin/env bash
# Writes docker/requirements*.txt: Python's packages in the image with the hashes of all their files, those for other
# processors among them. The newest releases that pyproject.toml allows; Debian's reticulate reads numpy 1 only.
set -euo pipefail
cd "$(dirname "$0")/.."
"${VENV:-.venv}/bin/pip" install --quiet uv
compile() {
  "${VENV:-.venv}/bin/uv" pip compile --quiet --python-version 3.11 --generate-hashes \
    --python-platform x86_64-unknown-linux-gnu --no-annotate --no-header "$@"
}
for extra in tensorflow cuda; do
  file=docker/requirements-$extra.txt
  compile pyproject.toml --extra "$extra" --constraint <(echo 'numpy<2') --output-file "${file/-tensorflow/}" --upgrade
done
compile <(printf '%s\n' hatchling ziglang) --output-file docker/requirements-build.txt --upgrade
