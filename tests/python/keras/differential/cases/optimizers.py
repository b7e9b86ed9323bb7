"""Every optimizer, and every option that changes gradients or weights around its update."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
from keras import layers, optimizers

from .registry import Result, add, case
from .training import integers, numbers, small_network, trained


def with_optimizer(name: str, make: Callable[[], Any], **expected: Any) -> None:
    def run(folder: Path) -> Result:
        return trained(small_network(), numbers(6), numbers(1, seed=2), optimizer=make(), epochs=3)

    add(f"optimizer_{name}", run, **expected)


def on_embedding(name: str, make: Callable[[], Any], **expected: Any) -> None:
    """The same with a sparse gradient."""

    def run(folder: Path) -> Result:
        model = keras.Sequential([layers.Embedding(20, 4), layers.Flatten(), layers.Dense(1)])
        return trained(model, integers(20, 5), numbers(1, seed=2), optimizer=make(), epochs=3)

    add(f"embedding_{name}", run, **expected)


def two_optimizers() -> Any:
    first = optimizers.SGD(0.5, clipnorm=0.02)
    return optimizers.OptimizerMap(optimizers.Adam(0.01), {".*kernel": first})


@case(tolerance=1e-4)
def embedding_of_many_equal_words(folder: Path) -> Result:
    """TensorFlow adds 4,000 places to 50 rows in the order of its threads, which differs between workers."""
    model = keras.Sequential([layers.Embedding(50, 32), layers.GlobalAveragePooling1D(), layers.Dense(1)])
    optimizer = optimizers.RMSprop(0.01)
    return trained(model, integers(50, 500), numbers(1, seed=2), optimizer=optimizer, epochs=3)


SCHEDULE = optimizers.schedules.ExponentialDecay(0.05, 2, 0.7)
# Adaptive optimizers divide by roots of small numbers, which magnifies rounding.
ADAPTIVE = {"tolerance": 1e-4}
for name, make in [
    ("adadelta", lambda: optimizers.Adadelta(1.0)),
    ("adafactor", lambda: optimizers.Adafactor(0.01)),
    ("adagrad", lambda: optimizers.Adagrad(0.1)),
    ("adam", lambda: optimizers.Adam(0.01)),
    ("adam_amsgrad", lambda: optimizers.Adam(0.01, amsgrad=True)),
    ("adamw", lambda: optimizers.AdamW(0.01, weight_decay=0.1)),
    ("adamax", lambda: optimizers.Adamax(0.01)),
    ("ftrl", lambda: optimizers.Ftrl(0.1)),
    ("lamb", lambda: optimizers.Lamb(0.01)),
    ("lion", lambda: optimizers.Lion(0.001)),
    ("nadam", lambda: optimizers.Nadam(0.01)),
    ("muon", lambda: optimizers.Muon(0.01)),
    ("rmsprop", lambda: optimizers.RMSprop(0.01, momentum=0.5, centered=True)),
    ("multi", lambda: optimizers.MultiOptimizer(two_optimizers())),
]:
    with_optimizer(name, make, **ADAPTIVE)
    on_embedding(name, make, **ADAPTIVE)

for name, make in [
    ("sgd", lambda: optimizers.SGD(0.05)),
    ("sgd_nesterov", lambda: optimizers.SGD(0.05, momentum=0.9, nesterov=True)),
    ("weight_decay", lambda: optimizers.SGD(0.05, weight_decay=0.1)),
    ("clipnorm", lambda: optimizers.SGD(0.5, clipnorm=0.02)),
    ("global_clipnorm", lambda: optimizers.SGD(0.5, global_clipnorm=0.02)),
    ("clipvalue", lambda: optimizers.SGD(0.5, clipvalue=0.01)),
    ("ema", lambda: optimizers.SGD(0.05, use_ema=True, ema_momentum=0.8)),
    (
        "ema_overwrite",
        lambda: optimizers.SGD(0.05, use_ema=True, ema_momentum=0.8, ema_overwrite_frequency=2),
    ),
    ("accumulation", lambda: optimizers.SGD(0.05, gradient_accumulation_steps=3)),
    ("accumulation_clipped", lambda: optimizers.SGD(0.5, gradient_accumulation_steps=2, clipnorm=0.02)),
    ("loss_scale_factor", lambda: optimizers.SGD(0.05, loss_scale_factor=8.0)),
    ("loss_scale", lambda: optimizers.LossScaleOptimizer(optimizers.SGD(0.05), dynamic_growth_steps=2)),
    ("schedule", lambda: optimizers.SGD(SCHEDULE)),
    ("cosine_schedule", lambda: optimizers.SGD(optimizers.schedules.CosineDecay(0.05, 6))),
]:
    with_optimizer(name, make)
    if not name.startswith("loss_scale"):  # stock Keras cannot divide an Embedding's gradient by the scale
        on_embedding(name, make)


def in_precision(policy: str, **expected: Any) -> None:
    def run(folder: Path) -> Result:
        keras.mixed_precision.set_global_policy(policy)
        try:
            model = keras.Sequential([layers.Dense(5, "tanh"), layers.Dense(1, dtype="float32")])
            return trained(model, numbers(6), numbers(1, seed=2))
        finally:
            keras.mixed_precision.set_global_policy("float32")

    add(f"precision_{policy}", run, **expected)


# A gradient is rounded to 16 bits on each worker, and then summed.
in_precision("mixed_float16", tolerance=1e-3)
in_precision("mixed_bfloat16", tolerance=1e-2)
in_precision("float64")
in_precision("float16", tolerance=1e-2)
in_precision("bfloat16", tolerance=5e-2)


@case(**ADAPTIVE)
def optimizer_schedule_free(folder: Path) -> Result:
    model, optimizer = small_network(), optimizers.ScheduleFreeAdamW(0.01, warmup_steps=2)
    # Built by fit() in one process, it begins with weights of 0, because its copy of them is lost.
    optimizer.build(model.trainable_variables)
    return trained(model, numbers(6), numbers(1, seed=2), optimizer=optimizer, epochs=3)


@case()
def loss_scale_with_infinity_on_one_worker(folder: Path) -> Result:
    x = numbers(6)
    x[3] = float("inf")  # of the first batch's rows, those of the first worker
    optimizer = optimizers.LossScaleOptimizer(
        optimizers.SGD(0.05), initial_scale=256.0, dynamic_growth_steps=3
    )
    result = trained(small_network(), x, numbers(1, seed=2), optimizer=optimizer, shuffle=False)
    scale, steps = optimizer.dynamic_scale.numpy(), optimizer.step_counter.numpy()
    return Result(result.model, {}, {"scale": scale, "steps": steps})
