"""Larger models on several workers against one process: the loss of every step, and the weights at the end.

Usage: models.py [--steps N] [--workers 2,4] [--models text,resnet,transformer] [--seed N]

Trains each model in one process and on several workers of this machine, with the same global batches, and
prints how far the losses are apart. Exit code 1 if a loss or the weights are further apart than the limits.
To tell the rounding of ResNet50 from an error, one process also trains on the same rows in another order
within each batch: that changes nothing but the order of additions.

The models: ``text`` has 10.3 million weights, 10 million of them in an embedding, with dropout, for texts of
varying length; ``resnet`` is ResNet50 for images of 32 x 32 with BatchNormalization in each of its blocks,
synchronized; ``transformer`` has two blocks of attention with masks, layer normalization and dropout.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

#: Rows of a global batch; the last one of an epoch has fewer.
BATCH = {"text": 64, "resnet": 24, "transformer": 32}
#: Largest difference of a loss from that of one process, relative to it, and of the weights, in units of how
#: far training has moved them; or this factor of what another order of the rows changes.
LOSS, WEIGHTS, FACTOR = 1e-4, 1e-3, 5


def text_model() -> Any:
    """An embedding of 50,000 words in 200 numbers, and a network on their mean."""
    from keras import Input, Sequential, layers

    hidden = [layers.Dense(512, activation="gelu"), layers.Dropout(0.3), layers.Dense(256, activation="gelu")]
    return Sequential(
        [
            Input((None,), dtype="int32"),
            layers.Embedding(50_000, 200, mask_zero=True),
            layers.GlobalAveragePooling1D(),
            *hidden,
            layers.Dense(20),
        ]
    )


def resnet_model() -> Any:
    """ResNet50 as keras.applications has it, with statistics of the whole global batch."""
    import keras

    def synchronized(layer: Any) -> Any:
        config = layer.get_config()
        if isinstance(layer, keras.layers.BatchNormalization):
            config["synchronized"] = True
        return type(layer).from_config(config)

    stock = keras.applications.ResNet50(weights=None, input_shape=(32, 32, 3), classes=10)
    return keras.models.clone_model(stock, clone_function=synchronized)


def transformer_model() -> Any:
    """Two encoder blocks of width 128 with four heads, on tokens of which 0 is padding."""
    import keras
    from keras import layers, ops

    class Places(layers.Layer):
        """Add a weight for each place; padding stays masked."""

        def __init__(self) -> None:
            super().__init__()
            self.supports_masking = True

        def build(self, shape: Any) -> None:
            self.places = self.add_weight(shape=(64, shape[-1]), initializer="normal")

        def call(self, x: Any) -> Any:
            return x + self.places[: ops.shape(x)[1]]

    tokens = keras.Input((None,), dtype="int32")
    x = Places()(layers.Embedding(5000, 128, mask_zero=True)(tokens))
    for _ in range(2):
        attended = layers.MultiHeadAttention(4, 32, dropout=0.1)(x, x)
        x = layers.LayerNormalization()(layers.Add()([x, attended]))
        inner = layers.Dense(128)(layers.Dense(256, activation="gelu")(x))
        x = layers.LayerNormalization()(layers.Add()([x, layers.Dropout(0.1)(inner)]))
    return keras.Model(tokens, layers.Dense(20)(layers.GlobalAveragePooling1D()(x)))


def batches(name: str, seed: int, steps: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Draw one epoch: batches of texts padded to their longest, or of images; the last one is smaller."""
    rng = np.random.default_rng(seed)
    made = []
    for step in range(steps):
        rows = BATCH[name] if step < steps - 1 else BATCH[name] // 2 - 3
        if name == "resnet":
            y = rng.integers(0, 10, rows)
            x = rng.random((rows, 32, 32, 3), "float32") + y[:, None, None, None].astype("float32") / 5
        else:
            words, longest = (50_000, 80) if name == "text" else (5000, 40)
            y = rng.integers(0, 20, rows)
            lengths = rng.integers(5, longest, rows)
            # Words of a class are near each other.
            near = y[:, None] * (words // 20) + rng.integers(1, words // 20, (rows, int(lengths.max())))
            x = np.where(np.arange(near.shape[1]) < lengths[:, None], near, 0).astype("int32")
        made.append((x, y.astype("int32")))
    return made


def train(name: str, seed: int, steps: int, reverse: bool, out: Path) -> None:
    """Train in this process or worker; write the loss of each step, and the weights before and after."""
    if "TF_CONFIG" in os.environ:
        import tfmuster

        scope = tfmuster.strategy("multi_worker_mirrored").scope()
    else:
        import contextlib

        scope = contextlib.nullcontext()
    import keras
    import tensorflow as tf

    data = batches(name, seed, steps)
    if reverse:
        data = [(x[::-1], y[::-1]) for x, y in data]
    x, y = data[0]
    pipeline = tf.data.Dataset.from_generator(
        lambda: iter(data),
        output_signature=(
            tf.TensorSpec((None, *(x.shape[1:] if name == "resnet" else (None,))), x.dtype),
            tf.TensorSpec((None,), y.dtype),
        ),
    )
    # Without it, one process counts a step more in each epoch: docs/concepts/fitting.md.
    pipeline = pipeline.apply(tf.data.experimental.assert_cardinality(steps))

    class Losses(keras.callbacks.Callback):  # type: ignore[misc]
        def on_train_begin(self, logs: Any = None) -> None:
            self.found: list[float] = []

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            self.found.append(float(logs["loss"]))

    keras.utils.set_random_seed(seed)
    with scope:
        model = {"text": text_model, "resnet": resnet_model, "transformer": transformer_model}[name]()
        from_logits = name != "resnet"
        optimizer = keras.optimizers.SGD(1e-4) if name == "resnet" else "adam"
        model.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=from_logits))
    before = model.get_weights()
    losses = Losses()
    begin = time.perf_counter()
    model.fit(pipeline, epochs=2, verbose=0, callbacks=[losses])
    seconds = time.perf_counter() - begin
    weights = model.get_weights()
    moved = {
        f"moved_{i}": after - start for i, (start, after) in enumerate(zip(before, weights, strict=True))
    }
    task = json.loads(os.environ.get("TF_CONFIG", "{}")).get("task", {"index": 0})
    np.savez(
        f"{out}-{task['index']}.npz",
        losses=np.array(losses.found),
        seconds=seconds,
        count=sum(w.size for w in weights),
        **moved,
    )


def run(out: Path, workers: int, *arguments: object) -> dict[str, np.ndarray]:
    """Train in one process (``workers=0``) or on several; all workers must have the same weights."""
    program = [str(Path(__file__).resolve()), "--train", str(out), *map(str, arguments)]
    command = [sys.executable, *program]
    if workers:
        launch = ["-m", "tfmuster", "launch", "-n", str(workers), "--quiet", "--run-dir", f"{out}-run"]
        command = [sys.executable, *launch, *program]
    env = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=1800, check=False)
    if done.returncode:
        raise SystemExit(done.stdout[-3000:] + done.stderr[-3000:])
    found = [dict(np.load(f"{out}-{index}.npz")) for index in range(max(workers, 1))]
    for other in found[1:]:
        for name, value in found[0].items():
            assert name == "seconds" or np.array_equal(other[name], value), f"the workers differ: {name}"
    return found[0]


def apart(found: dict[str, np.ndarray], one: dict[str, np.ndarray]) -> tuple[float, float]:
    """Return the largest difference of a loss, relative, and that of all weights, relative to their way."""
    loss = np.max(np.abs(found["losses"] - one["losses"]) / np.abs(one["losses"]))
    names = [name for name in one if name.startswith("moved_")]
    difference = sum(float(np.sum((found[name] - one[name]).astype("float64") ** 2)) for name in names)
    way = sum(float(np.sum(one[name].astype("float64") ** 2)) for name in names)
    return float(loss), (difference / way) ** 0.5


def main() -> int:
    """Run all and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=8, help="steps of each of two epochs. Default: 8.")
    parser.add_argument("--workers", default="2,4")
    parser.add_argument("--models", default="text,resnet,transformer")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--train", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--reverse", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.train:
        train(given.models, given.seed, given.steps, given.reverse, given.train)
        return 0
    print("| model | weights | compared with one process | losses apart | weights apart | time, ratio |")
    print("|---|---|---|---|---|---|")
    failed = 0
    for name in given.models.split(","):
        options = ("--models", name, "--seed", given.seed, "--steps", given.steps)
        with tempfile.TemporaryDirectory() as folder:
            one = run(Path(folder, "one"), 0, *options)
            rows = (
                {} if name != "resnet" else {"other order": run(Path(folder, "r"), 0, *options, "--reverse")}
            )
            rows |= {
                f"{count} workers": run(Path(folder, count), int(count), *options)
                for count in given.workers.split(",")
            }
        limits = LOSS, WEIGHTS
        for what, found in rows.items():
            loss, weights = apart(found, one)
            if what == "other order":
                limits = max(LOSS, FACTOR * loss), max(WEIGHTS, FACTOR * weights)
            good = loss <= limits[0] and weights <= limits[1]
            failed += not good
            ratio = float(found["seconds"] / one["seconds"])
            count = f"{int(one['count']) / 1e6:.1f} million"
            print(
                f"| {name} | {count} | {what} | {loss:.1e} | {weights:.1e} | {ratio:.2f} |"
                f"{'' if good else ' MISSED'}",
                flush=True,
            )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
