"""What users override in ``Model``: train_step, test_step and compute_loss."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops

from .registry import Result, add, case
from .training import BATCH, ROWS, numbers, small_network, trained

X, Y = numbers(6), numbers(1, seed=2)


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
def method_run_eagerly_with_a_raw_mean(folder: Path) -> Result:
    return trained(RawMean(), X, Y, loss=None, compiling={"run_eagerly": True})


@case()
def method_logs_of_other_types(folder: Path) -> Result:
    class Counting(RawMean):
        def train_step(self, data: Any) -> dict[str, Any]:
            return {**super().train_step(data), "epochs": tf.constant(3), "fine": tf.constant(True)}

    return trained(Counting(), X, Y, loss=None)


@case()
def method_train_step_with_compute_loss(folder: Path) -> Result:
    return trained(RowsMean(), X, Y, compiling={"metrics": ["mae"]})


@case()
def method_train_step_with_a_raw_mean(folder: Path) -> Result:
    return trained(RawMean(), X, Y, loss=None)


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

    return trained(WithObject(), X, Y, loss=None)


@case()
def method_train_step_with_the_average_loss_of_tensorflow(folder: Path) -> Result:
    """The function is imported from a module that TensorFlow makes when it is imported first."""
    from tensorflow.nn import compute_average_loss

    class WithAverage(RawMean):
        def train_step(self, data: Any) -> dict[str, Any]:
            x, y = data
            with tf.GradientTape() as tape:
                squares = tf.square(y - self(x, training=True))
                loss = compute_average_loss(tf.reduce_mean(squares, axis=-1), global_batch_size=BATCH)
            gradients = tape.gradient(loss, self.trainable_variables)
            self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
            return {"loss": loss}

    return trained(WithAverage(), X, Y, loss=None)


def with_own_loss(name: str, loss_of: Callable[[Any, Any], Any], *, any_size: bool = True) -> None:
    """Add a case with batches of one size, which is known before the step, and one of any size."""

    class OwnLoss(RawMean):
        def train_step(self, data: Any) -> dict[str, Any]:
            x, y = data
            with tf.GradientTape() as tape:
                loss = loss_of(tf.square(y - self(x, training=True)), x)
            gradients = tape.gradient(loss, self.trainable_variables)
            self.optimizer.apply(gradients, self.trainable_variables)
            self.loss_tracker.update_state(loss)
            return {"loss": self.loss_tracker.result(), "last": loss}

    def run(folder: Path, rows: int) -> Result:
        model = OwnLoss()
        return trained(model, X[:rows], Y[:rows], loss=None, optimizer=keras.optimizers.SGD(0.01))

    if any_size:
        add(f"method_train_step_with_a_{name}", lambda folder: run(folder, ROWS))
    add(f"method_train_step_with_a_{name}_of_fixed_batches", lambda folder: run(folder, 2 * BATCH))


with_own_loss("sum", lambda squares, x: tf.reduce_sum(squares))
with_own_loss("sum_over_a_number", lambda squares, x: tf.reduce_sum(squares) / BATCH)
with_own_loss("sum_times_a_number", lambda squares, x: (1 / BATCH) * tf.reduce_sum(squares))
with_own_loss("sum_over_rows", lambda squares, x: tf.reduce_sum(squares) / x.shape[0], any_size=False)


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

    return trained(Several(), X, Y, loss=None)


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
def method_test_step_with_data_of_another_structure(folder: Path) -> Result:
    """As in semi-supervised examples: a model without call(), trained on pairs of batches."""

    class Pairs(RawMean):
        call = keras.Model.call

        def of(self, x: Any) -> Any:
            return self.out(self.hidden(x))

        def train_step(self, data: Any) -> dict[str, Any]:
            (unlabeled, _), (x, y) = data
            with tf.GradientTape() as tape:
                loss = ops.mean(ops.square(self.of(x) - y)) + 0.1 * ops.mean(ops.square(self.of(unlabeled)))
            self.optimizer.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
            self.loss_tracker.update_state(loss)
            return {"loss": self.loss_tracker.result()}

        def test_step(self, data: Any) -> dict[str, Any]:
            x, y = data
            self.loss_tracker.update_state(ops.mean(ops.square(self.of(x) - y)))
            return {"loss": self.loss_tracker.result()}

    labeled = tf.data.Dataset.from_tensor_slices((X, Y)).batch(BATCH, drop_remainder=True)
    pairs = tf.data.Dataset.zip((labeled, labeled))
    return trained(Pairs(), pairs, loss=None, validation_data=labeled)


@case()
def method_train_step_on_batches_of_two_sizes(folder: Path) -> Result:
    """As in semi-supervised examples: batches of 12 and of 4 rows, which zip joins."""

    class Both(RawMean):
        def train_step(self, data: Any) -> dict[str, Any]:
            (unlabeled, _), (x, _) = data
            rows = ops.concatenate([unlabeled, x])
            with tf.GradientTape() as tape:
                loss = ops.mean(ops.square(self(rows) - self(ops.flip(rows, axis=1)) - 1))
            self.optimizer.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
            self.loss_tracker.update_state(loss)
            return {"loss": self.loss_tracker.result()}

    def batches(size: int) -> tf.data.Dataset:
        return tf.data.Dataset.from_tensor_slices((X[: 2 * size], Y[: 2 * size])).batch(size)

    model = Both()
    model(X)
    return trained(model, tf.data.Dataset.zip((batches(12), batches(4))), loss=None)


@case()
def method_call_with_something_else_than_the_batch(folder: Path) -> Result:
    """As in graph networks: the model computes with all nodes, and a batch has the numbers of rows."""

    class OfNodes(RawMean):
        def call(self, inputs: Any) -> Any:
            nodes, scale = inputs
            return super().call(nodes) * scale

        def train_step(self, data: Any) -> dict[str, Any]:
            numbers, y = data
            with tf.GradientTape() as tape:
                predicted = tf.gather(self([tf.constant(X), tf.constant(2.0)]), numbers)
                loss = ops.mean(ops.square(predicted - y))
            self.optimizer.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
            self.loss_tracker.update_state(loss)
            return {"loss": self.loss_tracker.result()}

    return trained(OfNodes(), np.arange(len(X)), Y, loss=None)


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

    return trained(VAE(), X, loss=None)


@case()
def method_gan(folder: Path) -> Result:
    """keras.io's GAN: two networks, two optimizers, compile() of its own, no call()."""

    class GAN(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.judge = small_network()
            self.maker = keras.Sequential([keras.Input((3,)), layers.Dense(6)])
            self.seeds = keras.random.SeedGenerator(1337)
            self.drop = layers.Dropout(0.3, seed=5)

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
            # Random numbers of twice the rows, of all kinds that are drawn in ways of their own.
            labels += 0.05 * keras.random.uniform(ops.shape(labels), seed=self.seeds)
            both += 0.1 * keras.random.truncated_normal(ops.shape(both), seed=self.seeds)
            kinds = ops.cast(keras.random.categorical(both, 1, seed=self.seeds), "float32")
            both += 0.1 * kinds + 0.1 * keras.random.gamma(ops.shape(labels), 1.0 + labels, seed=self.seeds)
            with tf.GradientTape() as tape:
                judge_loss = self.loss_fn(labels, self.judge(self.drop(both, training=True)))
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


class Seen(layers.Layer):
    """It keeps sums, numbers, extremes and moving means of the rows that it has seen."""

    def build(self, shape: Any) -> None:
        def weight(*shape: int, dtype: str | None = None) -> Any:
            return self.add_weight(shape=shape, initializer="zeros", trainable=False, dtype=dtype)

        self.rows, self.count, self.top = weight(), weight(dtype="int32"), weight()
        self.low, self.mean, self.squares, self.codes = weight(6), weight(6), weight(6), weight(3, 6)
        self.divided, self.spread = weight(6), weight(6)

    def call(self, x: Any, training: bool = False) -> Any:
        if training:
            self.rows.assign_add(tf.cast(tf.shape(x)[0], "float32"))
            self.count.assign_add(tf.shape(x)[0])
            self.top.assign(tf.maximum(self.top, tf.reduce_max(x)))
            self.low.assign(ops.minimum(self.low, ops.min(x - 1, axis=0)))
            self.mean.assign(0.9 * self.mean + 0.1 * ops.mean(x, axis=0))
            self.squares.assign_add(tf.einsum("bi,bi->i", x, x))
            rows = tf.cast(tf.shape(x)[0], "float32")
            self.divided.assign(0.9 * self.divided + 0.1 * tf.reduce_sum(x, axis=0) / rows)
            self.spread.assign(0.9 * self.spread + 0.1 * tf.einsum("bi,bi->i", x, x) / rows)
            nearest = tf.one_hot(tf.argmax(x[:, :3], axis=1), 3)
            self.codes.assign(0.8 * self.codes + 0.2 * tf.matmul(nearest, x, transpose_a=True))
        return x


@case()
def step_of_a_layer_that_keeps_what_it_has_seen(folder: Path) -> Result:
    model = keras.Sequential([keras.Input((6,)), Seen(), layers.Dense(1)])
    return trained(model, X, Y)


class Positions(layers.Layer):
    """Numbers of words and of their positions: the latter are the same for all rows."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.positions = layers.Embedding(5, 4), layers.Embedding(7, 4)

    def call(self, x: Any) -> Any:
        return self.words(x) + self.positions(ops.arange(ops.shape(x)[-1]))


@case()
def step_of_an_embedding_of_positions(folder: Path) -> Result:
    """RMSprop squares what each place of an embedding gets."""
    head = [layers.GlobalAveragePooling1D(), layers.Dense(1)]
    model = keras.Sequential([keras.Input((7,), dtype="int32"), Positions(), *head])
    words = np.random.default_rng(1).integers(0, 5, (ROWS, 7))
    return trained(model, words, Y, optimizer=keras.optimizers.RMSprop(0.01))


@case()
def step_that_ends_the_data_of_an_execution(folder: Path) -> Result:
    """The first step is run alone, for its proof; then there are no data for the others."""
    model = keras.Sequential([keras.Input((6,)), Seen(), layers.Dense(1)])
    return trained(model, X[:BATCH], Y[:BATCH], compiling={"steps_per_execution": 4})


class Words(keras.Model):
    """Its gradients are dense and sparse."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.out = layers.Embedding(5, 4), layers.Dense(1)

    def call(self, x: Any) -> Any:
        return self.out(ops.mean(self.words(x), axis=1))

    def gradients(self, data: Any) -> Any:
        x, y = data
        with tf.GradientTape() as tape:
            loss = self.compute_loss(x, y, self(x, training=True))
        return loss, tape.gradient(loss, self.trainable_variables)


class Clipped(Words):
    def train_step(self, data: Any) -> dict[str, Any]:
        loss, gradients = self.gradients(data)
        clipped, norm = tf.clip_by_global_norm(gradients, 0.3)
        self.optimizer.apply(clipped, self.trainable_variables)
        return {"by_hand": loss, "norm": norm}


class Sharpness(Words):
    """Foret et al., "Sharpness-aware minimization for efficiently improving generalization", 2021."""

    def train_step(self, data: Any) -> dict[str, Any]:
        loss, gradients = self.gradients(data)
        scale = 0.05 / tf.linalg.global_norm(gradients)
        steps = [tf.convert_to_tensor(gradient) * scale for gradient in gradients]
        for variable, step in zip(self.trainable_variables, steps, strict=True):
            variable.assign_add(step)
        _, gradients = self.gradients(data)
        for variable, step in zip(self.trainable_variables, steps, strict=True):
            variable.assign_sub(step)
        self.optimizer.apply(gradients, self.trainable_variables)
        return {"by_hand": loss}


@case()
def step_that_clips_its_gradients(folder: Path) -> Result:
    return trained(Clipped(), np.random.default_rng(1).integers(0, 5, (ROWS, 7)), Y)


@case()
def step_that_moves_the_weights_by_their_gradients(folder: Path) -> Result:
    return trained(Sharpness(), np.random.default_rng(1).integers(0, 5, (ROWS, 7)), Y)


@case()
def step_with_two_outputs_without_names_in_whole_batches(folder: Path) -> Result:
    """Keras weighs the losses of the outputs by the rows of a batch if it knows their number."""

    class Two(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.other = layers.Dense(1), layers.Dense(1)

        def call(self, x: Any) -> Any:
            return self.one(x), self.other(x)

    model = Two()
    model(X[:1])
    return trained(model, X[: 2 * BATCH], [Y[: 2 * BATCH], 2 * Y[: 2 * BATCH]], loss=["mse", "mae"])


@case()
def step_with_the_penalty_of_a_gradient(folder: Path) -> Result:
    """keras.io's WGAN-GP: a gradient with respect to the data, in a model that only its step can build."""

    class Critic(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.judge = keras.Sequential([layers.Dense(5, activation="tanh"), layers.Dense(1)])
            self.seeds = keras.random.SeedGenerator(4)

        def train_step(self, x: Any) -> dict[str, Any]:
            rows = ops.shape(x)[0]
            made = keras.random.normal((rows, 6), seed=self.seeds)
            between = x + keras.random.uniform((rows, 1), seed=self.seeds) * (made - x)
            with tf.GradientTape() as tape:
                with tf.GradientTape() as of_data:
                    of_data.watch(between)
                    judged = self.judge(between)
                slopes = tf.sqrt(tf.reduce_sum(tf.square(of_data.gradient(judged, [between])[0]), axis=1))
                penalty = tf.reduce_mean((slopes - 1.0) ** 2)
                loss = tf.reduce_mean(self.judge(made)) - tf.reduce_mean(self.judge(x)) + penalty
            weights = self.judge.trainable_weights
            self.optimizer.apply(tape.gradient(loss, weights), weights)
            return {"by_hand": loss}

    return trained(Critic(), X, loss=None)


def pairs(rows: int, batch: int) -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices((X[:rows], Y[:rows])).batch(batch, drop_remainder=True)


class OfPairs(keras.Model):
    """Its step calls it with the rows of two data sets; its batches have another structure."""

    def __init__(self) -> None:
        super().__init__()
        self.out = layers.Dense(1)

    def call(self, x: Any) -> Any:
        return self.out(x)

    def train_step(self, data: Any) -> dict[str, Any]:
        (one, _), (other, _) = data
        x = tf.concat([one, other], axis=0)
        with tf.GradientTape() as tape:
            # TensorFlow knows the number of rows as a float only before it runs.
            loss = tf.reduce_sum(self(x) ** 2) / tf.shape(x, out_type=tf.float32)[0]
        weights = self.trainable_weights
        self.optimizer.apply(tape.gradient(loss, weights), weights)
        return {"by_hand": loss}


@case()
def step_on_pairs_of_pairs(folder: Path) -> Result:
    data = tf.data.Dataset.zip((pairs(ROWS, BATCH), pairs(ROWS, BATCH)))
    return trained(OfPairs(), data, loss=None)


@case()
def step_on_two_data_sets_with_other_batches(folder: Path) -> Result:
    data = tf.data.Dataset.zip((pairs(ROWS, BATCH), pairs(ROWS // 2, BATCH // 2)))
    return trained(OfPairs(), data, loss=None)
