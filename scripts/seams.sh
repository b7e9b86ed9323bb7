#!/usr/bin/env bash
# Check the register of seams against releases that may be newer than those of `make matrix`: the newest ones,
# pre-releases included, and the nightly builds.
set -euo pipefail
# shellcheck source=scripts/step.sh
. scripts/step.sh

failed=0
for of in releases nightly; do
  venv=.venvs/seams-$of
  packages=(tensorflow keras tf-keras)
  [ "$of" = nightly ] && packages=(tf-nightly keras-nightly tf_keras-nightly)
  [ -d "$venv" ] || "$PYTHON" -m venv "$venv"
  # Asks the index each time: this is about what is newest today.
  step "seams-$of.log" "Installing ${packages[*]} into $venv" \
    "$venv/bin/python" -m pip install --progress-bar off --disable-pip-version-check --upgrade --pre -e . "${packages[@]}"
  echo
  # TensorFlow writes lines of its own when it is imported.
  "$venv/bin/python" scripts/seams.py 2>>".stamps/seams-$of.log" || failed=1
  echo
done
exit $failed
