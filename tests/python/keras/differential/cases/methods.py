"""Every method of ``Model``."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops

from .registry import Result, add, case
from .training import BATCH, ROWS, integers, numbers, small_network, trained

X, Y = numbers(6), numbers(1, seed=2)


def compiled(model: keras.Model | None = None, **compiling: Any) -> keras.Model:
    model = model or small_network()
    model.compile(**{"optimizer": keras.optimizers.SGD(0.05), "loss": "mse", "metrics": ["mae"], **compiling})
    return model


@case()
def method_evaluate(folder: Path) -> Result:
    model = compiled()
    found = model.evaluate(X, Y, batch_size=BATCH, verbose=0, return_dict=True)
    some = model.evaluate(X, Y, batch_size=5, steps=3, verbose=0)
    weighted = model.evaluate(X, Y, sample_weight=Y[:, 0], batch_size=BATCH, verbose=0)
    return Result(model, {}, {**found, "some": some, "weighted": weighted})


@case()
def method_predict(folder: Path) -> Result:
    model = compiled()
    data = tf.data.Dataset.from_tensor_slices(X)
    return Result(
        model,
        {},
        {
            "all": model.predict(X, batch_size=BATCH, verbose=0),
            "one_row": model.predict(X[:1], verbose=0),
            "steps": model.predict(data.batch(4).repeat(), steps=7, verbose=0),
            "data_set": model.predict(data.batch(BATCH), verbose=0),
            "of_batch": model.predict_on_batch(X[:7]),
        },
    )


class Unbuilt(keras.Model):
    """A model whose weights its first batch makes, of as many rows as a batch has."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden, self.out = layers.Dense(BATCH), layers.Dense(1)

    def call(self, x: Any) -> Any:
        return self.out(ops.tanh(self.hidden(x)))


def first_call(first: str, **compiling: Any) -> Callable[[Path], Result]:
    """Call a method of a model without weights, save them, load them, and train."""

    def run(folder: Path) -> Result:
        model, x = compiled(Unbuilt(), **compiling), numbers(BATCH)
        calls = {
            "predict": lambda: model.predict(x, batch_size=BATCH, verbose=0),
            "evaluate": lambda: model.evaluate(x, Y, batch_size=BATCH, verbose=0),
            "predict_on_batch": lambda: model.predict_on_batch(x[:BATCH]),
        }
        found = {"first": calls[first](), "again": calls[first]()}
        path = str(folder.with_suffix(".weights.h5"))
        model.save_weights(path)
        weights = model.get_weights()
        model.set_weights([0 * weight for weight in weights])
        model.load_weights(path)
        found["loaded"] = calls[first]()
        model.fit(x, Y, batch_size=BATCH, verbose=0)
        return Result(model, {}, found)

    return run


for method in ("predict", "evaluate", "predict_on_batch"):
    add(f"method_{method}_of_a_model_without_weights", first_call(method))
add("method_predict_eagerly_of_a_model_without_weights", first_call("predict", run_eagerly=True))


@case()
def method_variables_as_numbers(folder: Path) -> Result:
    """Convert variables as Keras's own callbacks and tests do."""
    model = compiled()
    model.fit(X, Y, batch_size=BATCH, verbose=0)
    optimizer = model.optimizer
    numbers_of = {
        "int": int(optimizer.iterations),
        "float": float(optimizer.learning_rate),
        "array": np.array(optimizer.learning_rate.value),
        "weights": np.asarray(model.weights[0].value, dtype="float64"),
    }
    return Result(model, {}, numbers_of)


def by_xla(**compiling: Any) -> Result:
    """Train, evaluate, and predict with jit_compile=True."""
    hidden = [layers.Conv2D(4, 3, activation="tanh"), layers.BatchNormalization(synchronized=True)]
    model = keras.Sequential([keras.Input((8, 8, 3)), *hidden, layers.Flatten(), layers.Dense(1)])
    model.compile(loss="mse", metrics=["mae"], jit_compile=True, **compiling)
    x = numbers(8, 8, 3)
    history = model.fit(x, Y, batch_size=BATCH, epochs=3, verbose=0, validation_data=(x, Y)).history
    others = {"predicted": model.predict(x, batch_size=BATCH, verbose=0)}
    others["evaluated"] = model.evaluate(x, Y, batch_size=BATCH, verbose=0)
    return Result(model, history, others)


@case()
def method_jit_compile(folder: Path) -> Result:
    return by_xla(optimizer=keras.optimizers.SGD(0.01, momentum=0.9, global_clipnorm=0.5))


@case()
def method_jit_compile_several_steps(folder: Path) -> Result:
    return by_xla(optimizer=keras.optimizers.SGD(0.01), steps_per_execution=2)


@case()
def method_jit_compile_an_embedding(folder: Path) -> Result:
    hidden = [layers.Embedding(30, 4), layers.Dropout(0.0), layers.GlobalAveragePooling1D()]
    model = keras.Sequential([keras.Input((7,)), *hidden, layers.Dense(1)])
    return trained(model, integers(30, 7), Y, compiling={"jit_compile": True})


def predicted_by(function: Any, inputs: Any, data: Any) -> Result:
    """Predict with a functional model of one Lambda layer."""

    class Model(keras.Model):
        def call(self, x: Any) -> Any:
            return function(x)

    model = Model()
    model.compile()
    out = model.predict(data, batch_size=None if isinstance(data, tf.data.Dataset) else BATCH, verbose=0)
    if isinstance(out, tf.RaggedTensor):
        return Result(None, {}, {"values": out.flat_values.numpy(), "lengths": out.row_lengths().numpy()})
    return Result(None, {}, {"predicted": out.astype("U") if out.dtype == object else out})


@case()
def method_predict_three_rows_for_one(folder: Path) -> Result:
    return predicted_by(lambda x: ops.reshape(x, (-1, 2)), (6,), X)


@case()
def method_predict_strings(folder: Path) -> Result:
    return predicted_by(lambda x: tf.strings.as_string(x, precision=3), (6,), X)


@case()
def method_predict_other_lengths(folder: Path) -> Result:
    """Each batch has predictions of another length, as padded texts have."""
    lengths = np.arange(ROWS) // 5 + 1
    data = tf.data.Dataset.from_generator(
        lambda: (np.arange(n, dtype="float32") for n in lengths),
        output_signature=tf.TensorSpec((None,), tf.float32),
    ).padded_batch(BATCH)
    return predicted_by(lambda x: 2 * x, (None,), data)


@case()
def method_predict_ragged(folder: Path) -> Result:
    lengths = integers(9, seed=4) + 1
    rows = tf.ragged.constant([list(np.arange(n, dtype="float32")) for n in lengths])
    return predicted_by(lambda x: x * 2.0, (None,), tf.data.Dataset.from_tensor_slices(rows).batch(BATCH))


@case()
def method_predict_traces_once(folder: Path) -> Result:
    traces = []

    class Model(keras.Model):
        def call(self, x: Any) -> Any:
            traces.append(1)
            return 2 * x

    model = Model()
    model.compile()
    for rows in (10, 20, 30, 41, 16):
        out = model.predict(X[:rows], batch_size=8, verbose=0)
    assert len(traces) <= 4, len(traces)
    return Result(None, {}, {"predicted": out})


@case()
def method_on_batch(folder: Path) -> Result:
    model = compiled()
    found = [model.train_on_batch(X[i : i + BATCH], Y[i : i + BATCH]) for i in range(0, ROWS, BATCH)]
    tested = model.test_on_batch(X[:9], Y[:9])
    weighted = model.train_on_batch(X[:8], Y[:8], sample_weight=Y[:8, 0])
    return Result(model, {}, {"trained": found, "tested": tested, "weighted": weighted})


@case()
def method_save_and_load(folder: Path) -> Result:
    folder.mkdir(exist_ok=True)
    model = compiled()
    model.fit(X, Y, batch_size=BATCH, verbose=0)
    model.save(folder / "model.keras")
    return _loaded_by_all(folder / "model.keras")


@case()
def method_saved_by_function(folder: Path) -> Result:
    folder.mkdir(exist_ok=True)
    model = compiled()
    model.fit(X, Y, batch_size=BATCH, verbose=0)
    keras.saving.save_model(model, folder / "model.keras")
    model.export(folder / "served", verbose=False)
    _wait_for_chief()
    # What serves has no strategy.
    serves = "import sys, numpy as np, tensorflow as tf; model = tf.saved_model.load(sys.argv[1]);"
    serves += "np.save(sys.argv[3], model.serve(np.load(sys.argv[2])))"
    np.save(folder / "x.npy", X)
    mine = folder / f"{_worker()}.npy"
    environ = {k: v for k, v in os.environ.items() if k != "TF_CONFIG"}
    command = [sys.executable, "-c", serves, folder / "served", folder / "x.npy", mine]
    subprocess.run(command, env=environ, check=True, timeout=120)
    served = np.load(mine)
    again = _loaded_by_all(folder / "model.keras")
    return Result(again.model, again.history, {"served": served})


def _loaded_by_all(path: Path) -> Result:
    loaded = keras.saving.load_model(path)
    return Result(loaded, loaded.fit(X, Y, batch_size=BATCH, verbose=0).history)


def _worker() -> int:
    resolver = tf.distribute.get_strategy().cluster_resolver
    return resolver.task_id if resolver else 0


def _wait_for_chief() -> None:
    strategy = tf.distribute.get_strategy()
    if strategy.num_replicas_in_sync > 1:
        strategy.reduce("SUM", np.int64(1), axis=None).numpy()


@case()
def method_weights_in_a_file(folder: Path) -> Result:
    folder.mkdir(exist_ok=True)
    model = compiled()
    model.fit(X, Y, batch_size=BATCH, verbose=0)
    model.save_weights(folder / "model.weights.h5")
    other = compiled()
    other.load_weights(folder / "model.weights.h5")
    return Result(other, other.fit(X, Y, batch_size=BATCH, verbose=0).history)


@case()
def method_clone_and_freeze(folder: Path) -> Result:
    base = small_network(4)
    base.layers[0].trainable = False
    model = keras.Sequential([keras.Input((6,)), keras.models.clone_model(base), layers.Dense(1)])
    model.layers[0].layers[0].trainable = False
    first = trained(model, X, Y, epochs=1)
    model.layers[0].layers[0].trainable = True
    second = trained(model, X, Y, epochs=1)
    return Result(model, {f"first_{k}": v for k, v in first.history.items()} | dict(second.history))


@case()
def method_compile_again(folder: Path) -> Result:
    model = compiled()
    model.fit(X, Y, batch_size=BATCH, verbose=0)
    return trained(model, X, Y, optimizer=keras.optimizers.Adam(0.01), loss="mae")


@case()
def method_run_eagerly(folder: Path) -> Result:
    return trained(small_network(), X, Y, compiling={"run_eagerly": True, "metrics": ["mae"]})


@case()
def method_run_eagerly_with_several_losses(folder: Path) -> Result:
    """Keras adds up the losses of the outputs and of the regularizer, and multiplies the sum."""
    inputs = keras.Input((6,))
    hidden = layers.Dense(5, activation="tanh", kernel_regularizer="l2")(inputs)
    model = keras.Model(inputs, [layers.Dense(1)(hidden), layers.Dense(1)(hidden)])
    optimizer = keras.optimizers.SGD(0.05, loss_scale_factor=8.0)
    compiling = {"run_eagerly": True, "loss_weights": [1.0, 0.3]}
    return trained(model, X, [Y, -Y], optimizer=optimizer, loss=["mse", "mae"], compiling=compiling)


@case()
def method_steps_per_execution(folder: Path) -> Result:
    return trained(small_network(), X, Y, compiling={"steps_per_execution": 2, "metrics": ["mae"]})


def outside_of_scopes(make: Callable[[], Any]) -> Any:
    """Call a function in a thread of its own, where no scope was entered."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(make).result()


def loop_after_fit(name: str, make: Callable[[], Any]) -> None:
    """A custom loop, in a traced function, with an optimizer that the strategy does not know."""

    def run(folder: Path) -> Result:
        model, optimizer, strategy = compiled(), outside_of_scopes(make), tf.distribute.get_strategy()
        history = dict(model.fit(X, Y, batch_size=BATCH, verbose=0).history)
        data = tf.data.Dataset.from_tensor_slices((X[:32], Y[:32])).batch(16)
        mse = keras.losses.MeanSquaredError(reduction="none")

        def step(x: Any, y: Any) -> Any:
            with tf.GradientTape() as tape:
                loss = tf.nn.compute_average_loss(mse(y, model(x, training=True)), global_batch_size=16)
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
            return loss

        @tf.function
        def epoch(iterator: Any) -> Any:
            total = 0.0
            for _ in tf.range(2):
                losses = strategy.run(step, args=next(iterator))
                total += strategy.reduce("SUM", losses, axis=None)
            return total

        history["loop"] = [float(epoch(iter(strategy.experimental_distribute_dataset(data))))]
        return Result(model, history)

    add(f"method_loop_after_fit_{name}", run)


loop_after_fit("adam", lambda: keras.optimizers.Adam(0.01))
loop_after_fit("scaled", lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.05)))


@case()
def method_jit_compile_auto(folder: Path) -> Result:
    return trained(small_network(), X, Y, compiling={"jit_compile": "auto"})
