#!/usr/bin/env bash
# Run the tests of the Keras repair on the oldest supported, a middle and the newest TensorFlow and Keras 3.
set -euo pipefail

# TensorFlow 2.16 is the first whose Keras is Keras 3; Keras 3.5 is the first with the trainer that is repaired.
pairs=("2.16.2 3.5.0" "2.18.1 3.8.0" "2.21.0 3.15.1")
tests=(tests/python/test_keras_compat.py tests/python/test_model_parity.py)

failed=()
for pair in "${pairs[@]}"; do
  read -r tensorflow keras <<<"$pair"
  venv=.venvs/tensorflow-$tensorflow-keras-$keras
  echo "== TensorFlow $tensorflow, Keras $keras"
  if [ ! -f "$venv/complete" ]; then
    "$PYTHON" -m venv "$venv"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check -e ".[dev]" \
      "tensorflow==$tensorflow" "keras==$keras" "numpy>=1.26,<2"
    touch "$venv/complete"
  fi
  "$venv/bin/python" -m pytest "${tests[@]}" "$@" || failed+=("$pair")
done

if [ ${#failed[@]} -gt 0 ]; then
  printf 'Failed with TensorFlow and Keras %s\n' "${failed[@]}" >&2
  exit 1
fi
