#!/usr/bin/env bash
# Make .venv and install the Python package into it, editable.
#
#   python.sh EXTRAS    extras of pyproject.toml: tensorflow to train; with dev,legacy,spark or parity for the tests
#   python.sh jax       JAX for the tests, in .venvs/jax, which has all packages of .venv, too
#   python.sh site      Sphinx and others for `make site`
#   python.sh torch     PyTorch for the benchmarks, in .venvs/torch, without tfmuster
set -euo pipefail
# shellcheck source=scripts/step.sh
. scripts/step.sh

extras=$1
packages=()
# Debian's reticulate (1.28) reads numpy 1 only; reticulate 1.38 and later read numpy 2 too.
reads_numpy_2='cat(requireNamespace("reticulate", quietly = TRUE) && packageVersion("reticulate") >= "1.38")'
if [ "$(Rscript -e "$reads_numpy_2" 2>/dev/null)" != TRUE ]; then
  packages+=("numpy>=1.26,<2")
fi
# Later releases ask R for a function that only R 4.5 has.
if [ "$extras" = parity ] && [ "$(Rscript -e 'cat(getRversion() < "4.5")')" = TRUE ]; then
  packages+=("rpy2-rinterface<=3.6.5")
fi

if [ ! -x "$VENV/bin/python" ]; then
  if ! "$PYTHON" -c 'import sys; sys.exit(not (3, 10) <= sys.version_info < (3, 14))'; then
    echo "Python 3.10 to 3.13 is needed, but $PYTHON is $("$PYTHON" --version 2>&1). Choose one: make PYTHON=python3.11" >&2
    exit 1
  fi
  if ! "$PYTHON" -m venv "$VENV"; then
    rm -rf "$VENV"
    echo "$PYTHON can't make virtual environments. Debian/Ubuntu: apt-get install python3-venv" >&2
    exit 1
  fi
fi
venv=$VENV where=.venv
if [ "$extras" = jax ]; then
  venv=.venvs/jax where=$venv
  "$VENV/bin/python" -m venv "$venv"
  of_venv=$("$VENV/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  echo "import site; site.addsitedir('$of_venv')" >"$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/packages-of-venv.pth"
fi
if [ "$extras" = torch ]; then
  "$VENV/bin/python" -m venv .venvs/torch
  step "python-torch.log" "Installing PyTorch for the benchmarks into .venvs/torch" \
    .venvs/torch/bin/python -m pip install --progress-bar off --disable-pip-version-check numpy torch==2.13.0
  exit
fi
case $extras in
  tensorflow) what="Python packages" about=" with TensorFlow (600 MB: the first time takes minutes)" ;;
  site) what="Python packages for the documentation" about="" ;;
  *) what="Python packages for the tests" about=" ($extras)" ;;
esac
step "python-${extras//,/-}.log" "Installing $what into $where$about" \
  "$venv/bin/python" -m pip install --progress-bar off --disable-pip-version-check -e ".[$extras]" \
  ${packages[@]+"${packages[@]}"}
# pip compiles what it copies, which these files are not. Where PYTHONDONTWRITEBYTECODE is set, nobody else does.
"$venv/bin/python" -m compileall -q python/tfmuster
