#!/usr/bin/env bash
# Run the tests of the Keras repair on the oldest supported, a middle and the newest TensorFlow and Keras.
#
#   matrix.sh [PYTEST OPTIONS]    ONLY=2.16.2 chooses one TensorFlow
set -euo pipefail
# shellcheck source=scripts/step.sh
. scripts/step.sh

# TensorFlow 2.16 is the first whose Keras is Keras 3; why Keras is not older than 3.10: docs/developers/support.md.
# Keras 3.12 is the last for Python 3.10.
pairs=("2.16.2 3.10.0" "2.19.1 3.12.4" "2.21.0 3.15.1")
tests=(tests/python/unit/keras_compat
  tests/python/keras/test_{checkpoints,executions,gradient_dtypes,import_hook,keras_compat,model_parity}.py
  tests/python/jobs/test_{one_server,several_fits}.py)
# Programs and Keras's own tests on several workers, for an hour: they are written for the newest Keras.
newest=(tests/python/keras/{differential,own_tests})

failed=()
for pair in "${pairs[@]}"; do
  read -r tensorflow keras <<<"$pair"
  [ "${ONLY:-$tensorflow}" = "$tensorflow" ] || continue
  venv=.venvs/tensorflow-$tensorflow-keras-$keras
  echo "== TensorFlow $tensorflow, Keras $keras"
  if [ ! "$venv/complete" -nt pyproject.toml ]; then
    "$PYTHON" -m venv "$venv"
    step "matrix-tensorflow-$tensorflow.log" "Installing TensorFlow $tensorflow and Keras $keras into $venv" \
      "$venv/bin/python" -m pip install --progress-bar off --disable-pip-version-check -e ".[dev,legacy]" \
      "tensorflow==$tensorflow" "keras==$keras" "numpy>=1.26,<2"
    touch "$venv/complete"
  fi
  more=()
  [ "$pair" = "${pairs[-1]}" ] && more=("${newest[@]}")
  TFMUSTER_EVERY_CASE=1 "$venv/bin/python" -m pytest "${tests[@]}" ${more[@]+"${more[@]}"} "$@" || failed+=("$pair")
done

if [ ${#failed[@]} -gt 0 ]; then
  printf 'Failed with TensorFlow and Keras %s\n' "${failed[@]}" >&2
  exit 1
fi
