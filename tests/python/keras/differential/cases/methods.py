"""Every method of ``Model``, and what users override."""

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
    _wait_for_chief()
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
    _wait_for_chief()
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
def method_run_eagerly_with_a_raw_mean(folder: Path) -> Result:
    model = RawMean()
    model.compile(keras.optimizers.SGD(0.05), run_eagerly=True)
    return Result(model, model.fit(X, Y, batch_size=BATCH, epochs=2, verbose=0).history)


@case()
def method_logs_of_other_types(folder: Path) -> Result:
    class Counting(RawMean):
        def train_step(self, data: Any) -> dict[str, Any]:
            return {**super().train_step(data), "epochs": tf.constant(3), "fine": tf.constant(True)}

    model = Counting()
    model.compile(keras.optimizers.SGD(0.05))
    return Result(model, model.fit(X, Y, batch_size=BATCH, epochs=2, verbose=0).history)


@case()
def method_steps_per_execution(folder: Path) -> Result:
    return trained(small_network(), X, Y, compiling={"steps_per_execution": 2, "metrics": ["mae"]})


class RowsMean(keras.Model):
    """keras.io's own train_step, with the loss by compute_loss."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden, self.out = layers.Dense(5, activation="tanh"), layers.Dense(1)

    def call(self, x: Any) -> Any:
        return self.out(self.hidden(x))

    def train_step(self, data: Any) -> dict[str, Any]:
        x, y = data
        with tf.GradientTape() as tape:
            y_pred = self(x, training=True)
            loss = self.compute_loss(y=y, y_pred=y_pred)
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply(gradients, self.trainable_variables)
        for metric in self.metrics:
            if metric.name == "loss":
                metric.update_state(loss)
            else:
                metric.update_state(y, y_pred)
        return {m.name: m.result() for m in self.metrics}


@case()
def method_train_step_with_compute_loss(folder: Path) -> Result:
    return trained(RowsMean(), X, Y, compiling={"metrics": ["mae"]})


class RawMean(RowsMean):
    """keras.io's example of a train_step that computes its own loss and keeps its own metrics."""

    def __init__(self) -> None:
        super().__init__()
        self.loss_tracker = keras.metrics.Mean(name="loss")
        self.mae_metric = keras.metrics.MeanAbsoluteError(name="mae")

    def train_step(self, data: Any) -> dict[str, Any]:
        x, y = data
        with tf.GradientTape() as tape:
            y_pred = self(x, training=True)
            loss = ops.mean(keras.losses.mean_squared_error(y, y_pred))
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply(gradients, self.trainable_variables)
        self.loss_tracker.update_state(loss)
        self.mae_metric.update_state(y, y_pred)
        return {"loss": self.loss_tracker.result(), "mae": self.mae_metric.result()}

    @property
    def metrics(self) -> list[Any]:
        return [self.loss_tracker, self.mae_metric]


@case()
def method_train_step_with_a_raw_mean(folder: Path) -> Result:
    model = RawMean()
    model.compile(keras.optimizers.SGD(0.05))
    return Result(model, model.fit(X, Y, batch_size=BATCH, epochs=2, verbose=0).history)


@case()
def method_train_step_with_a_loss_object(folder: Path) -> Result:
    class WithObject(RawMean):
        def train_step(self, data: Any) -> dict[str, Any]:
            x, y = data
            with tf.GradientTape() as tape:
                y_pred = self(x, training=True)
                loss = keras.losses.MeanSquaredError()(y, y_pred)
            gradients = tape.gradient(loss, self.trainable_variables)
            self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
            self.mae_metric.update_state(y, y_pred)
            return {"loss": loss, "mae": self.mae_metric.result()}

    model = WithObject()
    model.compile(keras.optimizers.SGD(0.05))
    return Result(model, model.fit(X, Y, batch_size=BATCH, epochs=2, verbose=0).history)


@case()
def method_train_step_with_a_list_of_losses(folder: Path) -> Result:
    class Several(RawMean):
        def train_step(self, data: Any) -> dict[str, Any]:
            x, y = data
            with tf.GradientTape() as tape:
                y_pred = self(x, training=True)
                losses = [ops.mean(ops.square(y - y_pred)), ops.mean(ops.abs(y_pred))]
            gradients = tape.gradient(losses, self.trainable_variables)
            self.optimizer.apply(gradients, self.trainable_variables)
            return {"loss": losses[0] + losses[1]}

    model = Several()
    model.compile(keras.optimizers.SGD(0.05))
    return Result(model, model.fit(X, Y, batch_size=BATCH, epochs=2, verbose=0).history)


class LossInFunction(RawMean):
    """Its loss is computed in a traced function, and its gradients in another."""

    def __init__(self) -> None:
        super().__init__()
        self.mse = keras.losses.MeanSquaredError()

    @tf.function
    def loss_of(self, y: Any, y_pred: Any) -> Any:
        return self.mse(y, y_pred) + 0.1 * tf.reduce_mean(y_pred) + 0.01 * tf.reduce_sum(tf.abs(y_pred))

    @tf.function
    def gradients_of(self, x: Any, y: Any) -> tuple[Any, Any]:
        with tf.GradientTape() as tape:
            loss = self.loss_of(y, self(x, training=True))
        return loss, tape.gradient(loss, self.trainable_variables)

    def train_step(self, data: Any) -> dict[str, Any]:
        loss, gradients = self.gradients_of(*data)
        self.optimizer.apply(gradients, self.trainable_variables)
        return self._logs(loss)

    def test_step(self, data: Any) -> dict[str, Any]:
        x, y = data
        return self._logs(self.loss_of(y, self(x, training=False)))

    def _logs(self, loss: Any) -> dict[str, Any]:
        self.loss_tracker.update_state(loss)
        return {"loss": self.loss_tracker.result(), "last": loss}


@case()
def method_loss_in_a_function(folder: Path) -> Result:
    """The function is called in the graphs of a training, of an evaluation, and of a second training."""
    model = LossInFunction()
    model.compile(keras.optimizers.SGD(0.05))
    first = model.fit(X, Y, batch_size=BATCH, validation_data=(X[:23], Y[:23]), verbose=0).history
    second = model.fit(X, Y, batch_size=7, verbose=0).history
    return Result(model, {f"first_{name}": values for name, values in first.items()} | second)


@case()
def method_loss_in_a_function_run_eagerly(folder: Path) -> Result:
    class Eager(LossInFunction):
        @tf.function
        def loss_of(self, y: Any, y_pred: Any) -> Any:
            return self.mse(y, y_pred)

    model = Eager()
    model.compile(keras.optimizers.SGD(0.05), run_eagerly=True)
    return Result(model, model.fit(X, Y, batch_size=BATCH, verbose=0).history)


def outside_of_scopes(make: Callable[[], Any]) -> Any:
    """Call a function in a thread of its own, where no scope was entered."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(make).result()


def loop_after_fit(name: str, make: Callable[[], Any]) -> None:
    """A loop of one's own, in a traced function, with an optimizer that the strategy does not know."""

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
def method_compute_loss_overridden(folder: Path) -> Result:
    class Own(RowsMean):
        def compute_loss(
            self, x: Any = None, y: Any = None, y_pred: Any = None, sample_weight: Any = None, **more: Any
        ) -> Any:
            return ops.mean(ops.square(y - y_pred)) + 0.1 * ops.mean(ops.abs(y_pred))

        train_step = keras.Model.train_step

    return trained(Own(), X, Y, compiling={"metrics": ["mae"]})


@case()
def method_train_step_as_a_function(folder: Path) -> Result:
    class Traced(RowsMean):
        @tf.function
        def train_step(self, data: Any) -> dict[str, Any]:
            return super().train_step(data)

    return trained(Traced(), X, Y)


@case()
def method_test_step_overridden(folder: Path) -> Result:
    class Tested(RowsMean):
        def test_step(self, data: Any) -> dict[str, Any]:
            x, y = data
            y_pred = self(x, training=False)
            for metric in self.metrics:
                if metric.name == "loss":
                    metric.update_state(self.compute_loss(y=y, y_pred=y_pred))
                else:
                    metric.update_state(y, y_pred)
            return {m.name: m.result() for m in self.metrics}

    return trained(Tested(), X, Y, validation_data=(X[:23], Y[:23]))


@case()
def method_vae(folder: Path) -> Result:
    """keras.io's variational autoencoder: three trackers, sampling, no call()."""

    class VAE(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.encoder, self.decoder = layers.Dense(4), layers.Dense(6, activation="sigmoid")
            self.seeds = keras.random.SeedGenerator(1337)
            self.total = keras.metrics.Mean(name="loss")
            self.kl = keras.metrics.Mean(name="kl_loss")

        @property
        def metrics(self) -> list[Any]:
            return [self.total, self.kl]

        def train_step(self, data: Any) -> dict[str, Any]:
            with tf.GradientTape() as tape:
                mean, spread = ops.split(self.encoder(data), 2, axis=-1)
                z = mean + ops.exp(0.5 * spread) * keras.random.normal(ops.shape(mean), seed=self.seeds)
                rebuilt = ops.mean(ops.sum(ops.square(data - self.decoder(z)), axis=-1))
                kl = ops.mean(ops.sum(-0.5 * (1 + spread - ops.square(mean) - ops.exp(spread)), axis=1))
                total = rebuilt + kl
            variables = self.trainable_weights
            self.optimizer.apply_gradients(zip(tape.gradient(total, variables), variables, strict=True))
            self.total.update_state(total)
            self.kl.update_state(kl)
            return {m.name: m.result() for m in self.metrics}

    model = VAE()
    model.compile(optimizer=keras.optimizers.SGD(0.05))
    return Result(model, model.fit(X, batch_size=BATCH, epochs=2, verbose=0).history)


@case()
def method_gan(folder: Path) -> Result:
    """keras.io's GAN: two networks, two optimizers, compile() of its own, no call()."""

    class GAN(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.judge = small_network()
            self.maker = keras.Sequential([keras.Input((3,)), layers.Dense(6)])
            self.seeds = keras.random.SeedGenerator(1337)

        def compile(self, judge_optimizer: Any, maker_optimizer: Any, loss_fn: Any) -> None:
            super().compile()
            self.judge_optimizer, self.maker_optimizer = judge_optimizer, maker_optimizer
            self.loss_fn = loss_fn
            self.judge_loss = keras.metrics.Mean(name="judge_loss")
            self.maker_loss = keras.metrics.Mean(name="maker_loss")

        @property
        def metrics(self) -> list[Any]:
            return [self.judge_loss, self.maker_loss]

        def train_step(self, real: Any) -> dict[str, Any]:
            rows = ops.shape(real)[0]
            made = self.maker(keras.random.normal((rows, 3), seed=self.seeds))
            both = ops.concatenate([made, real], axis=0)
            labels = ops.concatenate([ops.ones((rows, 1)), ops.zeros((rows, 1))], axis=0)
            with tf.GradientTape() as tape:
                judge_loss = self.loss_fn(labels, self.judge(both))
            weights = self.judge.trainable_weights
            self.judge_optimizer.apply(tape.gradient(judge_loss, weights), weights)
            noise = keras.random.normal((rows, 3), seed=self.seeds)
            with tf.GradientTape() as tape:
                maker_loss = self.loss_fn(ops.zeros((rows, 1)), self.judge(self.maker(noise)))
            weights = self.maker.trainable_weights
            self.maker_optimizer.apply(tape.gradient(maker_loss, weights), weights)
            self.judge_loss.update_state(judge_loss)
            self.maker_loss.update_state(maker_loss)
            return {m.name: m.result() for m in self.metrics}

    model = GAN()
    model.compile(
        keras.optimizers.SGD(0.05),
        keras.optimizers.SGD(0.05),
        keras.losses.BinaryCrossentropy(from_logits=True),
    )
    history = model.fit(X, batch_size=BATCH, epochs=2, verbose=0).history
    weights = {f"w{i}": w for i, w in enumerate(model.judge.get_weights() + model.maker.get_weights())}
    return Result(None, history, weights)


@case()
def method_jit_compile_auto(folder: Path) -> Result:
    return trained(small_network(), X, Y, compiling={"jit_compile": "auto"})
