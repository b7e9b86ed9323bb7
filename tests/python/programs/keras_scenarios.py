"""Train small Keras models in many ways, and write what came of each, for test_keras_compat.py to compare.

Usage: keras_scenarios.py FOLDER [SCENARIO...]; writes FOLDER/<scenario>-<worker>.npz. Without TF_CONFIG it is
one process without a strategy. One process pair runs all scenarios, as a process has one multi-worker
strategy.
"""

import contextlib
import json
import os
import shutil
import sys
import threading
import time
from pathlib import Path

import numpy as np

folder, wanted = Path(sys.argv[1]), sys.argv[2:]
config = json.loads(os.environ.get("TF_CONFIG", "{}"))
worker = config["task"]["index"] if config else 0

import tfmuster

strategy = tfmuster.strategy("multi_worker_mirrored" if config else "default")

import keras
import tensorflow as tf
from scenarios import run_scenarios, scenario, scenarios

ROWS, SIDE, CLASSES = 190, 8, 3
rng = np.random.default_rng(0)
X = rng.random((ROWS, SIDE, SIDE, 1)).astype("float32")
Y = rng.integers(0, CLASSES, ROWS)
ONE_HOT = np.eye(CLASSES, dtype="float32")[Y]
STEPS_50 = {"batch_size": 19, "epochs": 5, "shuffle": True}  # 10 steps each


def network(*, middle=(), optimizer=None, metrics=("accuracy",), l2=0.0, **compile_arguments):
    """A small convolutional network, compiled."""
    model = keras.Sequential(
        [
            keras.Input((SIDE, SIDE, 1)),
            keras.layers.Conv2D(
                4, 3, activation="relu", kernel_regularizer=keras.regularizers.L2(l2) if l2 else None
            ),
            keras.layers.Flatten(),
            *(layer() for layer in middle),
            keras.layers.Dense(CLASSES),
        ]
    )
    model.compile(
        optimizer=optimizer() if optimizer else keras.optimizers.SGD(0.1),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=list(metrics),
        **compile_arguments,
    )
    return model


def fit(model, *args, **kwargs):
    return {"history": model.fit(*args, verbose=0, **kwargs).history, "model": model}


@scenario
def numpy_input():
    return fit(network(), X, Y, **STEPS_50)


@scenario
def adam():
    return fit(network(optimizer=lambda: keras.optimizers.Adam(0.01)), X, Y, **STEPS_50)


@scenario
def tf_data_shuffled():
    data = tf.data.Dataset.from_tensor_slices((X, Y)).shuffle(ROWS, seed=11).batch(19).prefetch(2)
    return fit(network(), data, epochs=3)


@scenario
def tf_data_repeated():
    data = tf.data.Dataset.from_tensor_slices((X, Y)).shuffle(50, seed=4).repeat().batch(16)
    return fit(network(), data, epochs=3, steps_per_epoch=7)


@scenario
def partial_last_batch():
    return fit(network(), X[:85], Y[:85], batch_size=28, epochs=4)  # the last batch has one row


@scenario
def validation_data():
    return fit(network(), X[:150], Y[:150], validation_data=(X[150:], Y[150:]), batch_size=32, epochs=3)


@scenario
def validation_split():
    return fit(network(), X, Y, validation_split=0.25, batch_size=30, epochs=3)


@scenario
def sample_weight():
    weights = np.linspace(0, 2, ROWS).astype("float32")
    model = network(weighted_metrics=["accuracy"])
    return fit(model, X, Y, sample_weight=weights, batch_size=27, epochs=3)


@scenario
def class_weight():
    return fit(network(), X, Y, class_weight={0: 0.5, 1: 1.0, 2: 2.0}, batch_size=27, epochs=3)


@scenario
def regularizer():
    return fit(network(l2=0.01), X, Y, batch_size=27, epochs=3)


@scenario
def metrics_with_state():
    model = network()
    model.compile(
        keras.optimizers.SGD(0.1),
        keras.losses.CategoricalCrossentropy(from_logits=True),
        metrics=[
            keras.metrics.AUC(from_logits=True, name="auc"),
            keras.metrics.Precision(thresholds=0.2, name="precision"),
            keras.metrics.F1Score(name="f1", average="macro"),
        ],
    )
    return fit(model, X, ONE_HOT, validation_split=0.2, batch_size=27, epochs=3)


@scenario
def steps_per_execution():
    return fit(network(steps_per_execution=4), X, Y, **STEPS_50)  # 10 steps: the last execution has 2


@scenario
def gradient_accumulation():
    return fit(
        network(optimizer=lambda: keras.optimizers.SGD(0.1, gradient_accumulation_steps=3)), X, Y, **STEPS_50
    )


@scenario
def momentum_clipping_and_decay():
    make = lambda: keras.optimizers.SGD(0.05, momentum=0.9, weight_decay=0.01, use_ema=True, ema_momentum=0.9)
    return fit(network(optimizer=make), X, Y, **STEPS_50)


@scenario
def run_eagerly():
    return fit(network(run_eagerly=True), X[:57], Y[:57], batch_size=19, epochs=2)


@scenario
def two_inputs_two_outputs():
    a, b = keras.Input((SIDE, SIDE, 1), name="a"), keras.Input((SIDE, SIDE, 1), name="b")
    both = keras.layers.Concatenate()([keras.layers.Flatten()(a), keras.layers.Flatten()(b)])
    model = keras.Model(
        {"a": a, "b": b},
        {
            "label": keras.layers.Dense(CLASSES, name="label")(both),
            "sum": keras.layers.Dense(1, name="sum")(both),
        },
    )
    model.compile(
        keras.optimizers.SGD(0.02),
        {"label": keras.losses.SparseCategoricalCrossentropy(from_logits=True), "sum": "mse"},
        metrics={"label": ["accuracy"]},
    )
    targets = {"label": Y, "sum": X.sum((1, 2, 3)) / 64}
    return fit(model, {"a": X, "b": X[::-1].copy()}, targets, batch_size=38, epochs=3)


@scenario
def subclass_with_its_own_step():
    class Mine(keras.Model):
        def __init__(self):
            super().__init__()
            self.flat, self.out = keras.layers.Flatten(), keras.layers.Dense(CLASSES)

        def call(self, x):
            return self.out(self.flat(x))

        def train_step(self, data):
            x, y = data
            with tf.GradientTape() as tape:
                loss = self.compute_loss(x, y, self(x, training=True))
            self.optimizer.apply_gradients(
                zip(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
            )
            return {"mine": loss}

    model = Mine()
    model.compile(keras.optimizers.SGD(0.1), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    result = fit(model, X, Y, batch_size=38, epochs=2)
    result["history"] = {}  # its loss is that of the last batch's part, scaled: not for comparison
    return result


def seen_by_callback(model):
    """What a callback sees of each batch's predictions; others wait for those of all workers to the end."""

    batches = []

    class Seen(keras.callbacks.Callback):
        def on_predict_batch_end(self, batch, logs=None):
            batches.append(logs["outputs"])

    predicted = model.predict(X, batch_size=44, verbose=0, callbacks=[Seen()])
    np.testing.assert_array_equal(np.concatenate(batches), predicted)
    return predicted


@scenario
def predict_several_outputs():
    x = keras.Input(X.shape[1:])
    flat = keras.layers.Flatten()(x)
    out = keras.layers.Dense(5, dtype="mixed_bfloat16", name="rounded")(flat)
    model = keras.Model(x, {"rounded": out, "most": keras.ops.argmax(out, axis=1), "large": out > 0})
    model.compile(keras.optimizers.SGD(0.1), {"rounded": "mse"})
    found = model.predict(X, batch_size=13, verbose=0)
    return {
        "model": model,
        "history": {},
        "rounded": np.asarray(found["rounded"], "float32"),
        "most": found["most"],
        "large": found["large"].astype(int),
    }


@scenario
def evaluate_and_predict():
    model = network()
    fit(model, X, Y, batch_size=38, epochs=1)
    return {
        "model": model,
        "history": {"evaluate": model.evaluate(X, Y, batch_size=44, verbose=0)},
        "predictions": model.predict(X, batch_size=44, verbose=0),
        "seen": seen_by_callback(model),
        "few_rows": model.predict(X[:3], batch_size=2, verbose=0),
        "in_one_batch": model.predict_on_batch(X[:13]),
    }


@scenario
def single_batches():
    model = network()
    logs = [model.train_on_batch(X[i : i + 21], Y[i : i + 21]) for i in range(0, 84, 21)]
    return {
        "model": model,
        "history": {"train": np.ravel(logs).tolist(), "test": model.test_on_batch(X[:31], Y[:31])},
    }


@scenario
def early_stopping():
    stop = keras.callbacks.EarlyStopping(
        monitor="val_loss", patience=0, min_delta=0.05, restore_best_weights=True
    )
    return fit(network(), X, Y, validation_split=0.2, batch_size=38, epochs=12, callbacks=[stop])


# ---- not comparable with one process, but the workers must agree -----------------------------------------


@scenario
def batch_norm():
    model = network(middle=[keras.layers.BatchNormalization])
    return fit(model, X, Y, batch_size=27, epochs=3)


@scenario
def batch_norm_with_empty_part():
    model = network(middle=[keras.layers.BatchNormalization])
    return fit(model, X[:85], Y[:85], batch_size=28, epochs=2)


@scenario
def batch_norm_local():
    if config:
        tfmuster.strategy("multi_worker_mirrored", batch_norm="local")
    try:
        return batch_norm()
    finally:
        if config:
            tfmuster.strategy("multi_worker_mirrored", batch_norm="synchronized")


@scenario
def dropout():
    return fit(network(middle=[lambda: keras.layers.Dropout(0.5, seed=5)]), X, Y, **STEPS_50)


@scenario
def callbacks_that_write():
    shared = folder / "shared"
    writers = [
        keras.callbacks.ModelCheckpoint(str(shared / "best.keras"), save_best_only=True, monitor="loss"),
        keras.callbacks.ModelCheckpoint(str(shared / "{epoch}.weights.h5"), save_weights_only=True),
        keras.callbacks.TensorBoard(str(shared / "tensorboard")),
        keras.callbacks.CSVLogger(str(shared / "log.csv")),
    ]
    result = fit(network(), X, Y, batch_size=38, epochs=3, callbacks=writers)
    result["model"].save(shared / "last.keras")
    # The others come when the chief's files are there, which nobody may overwrite.
    time.sleep(min(worker, 1))
    keras.saving.save_model(result["model"], shared / "api.keras", overwrite=False)
    keras.models.save_model(result["model"], filepath=shared / "models.h5", overwrite=False)
    result["model"].save(shared / "positional.keras", False)
    result["model"].save_weights(shared / "positional.weights.h5", False)
    tf.saved_model.save(result["model"], export_dir=str(shared / "served"))
    if shutil.which("dot"):
        keras.utils.plot_model(result["model"], shared / "model.png")
    checkpoint = tf.train.Checkpoint(model=result["model"])
    manager = tf.train.CheckpointManager(checkpoint, str(shared / "checkpoints"), max_to_keep=2)
    for _ in range(20):
        manager.save()
    checkpoint.restore(manager.latest_checkpoint).assert_consumed()
    return result


@scenario
def step_in_its_own_thread():
    """Train in the caller's thread, and then in TensorFlow's threads."""
    from tensorflow.python.distribute import mirrored_run

    threads = set()

    class Noting(keras.layers.Layer):
        def call(self, x):
            threads.add(type(threading.current_thread()).__name__)
            return x

    def train():
        keras.utils.set_random_seed(7)
        layers = [keras.layers.BatchNormalization, Noting, lambda: keras.layers.Dropout(0.2)]
        model = network(middle=layers, optimizer=keras.optimizers.Adam)
        return fit(model, X, Y, batch_size=28, epochs=3, validation_split=0.2)

    result, own = train(), set(threads)
    threads.clear()
    replaced = mirrored_run._call_for_each_replica
    mirrored_run._call_for_each_replica = replaced.__wrapped__
    try:
        stock, of_stock = train(), set(threads)
    finally:
        mirrored_run._call_for_each_replica = replaced
    for index, weight in enumerate(stock["model"].get_weights()):
        result[f"stock_{index}"] = weight
    result["in_main_thread"] = np.array([own == {"_MainThread"}, of_stock == {"_MainThread"}])
    return result


@scenario
def calls_in_a_replica():
    """Collectives and merge_call in strategy.run: eagerly, in a graph, in a function, and in a loop."""

    def merged(value):
        context = tf.distribute.get_replica_context()
        return context.merge_call(lambda s, v: s.reduce("SUM", v, axis=None), args=(value,))

    def step(value):
        context = tf.distribute.get_replica_context()
        return tf.stack(
            [
                context.all_reduce("SUM", value),
                tf.reduce_sum(context.all_gather(tf.reshape(value, [1]), 0)),
                merged(value),
                tf.cast(context.replica_id_in_sync_group >= 0, tf.float32),
            ]
        )

    def loop(value):
        return tf.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, merged(v)), (tf.constant(0), value))[1]

    value = tf.constant(worker + 1.0)
    graph = tf.function(lambda v: strategy.run(step, args=(v,)))
    result = fit(network(), X, Y, batch_size=38)
    result["sums"] = np.stack([strategy.run(step, args=(value,)), graph(value)])
    result["function"] = strategy.run(tf.function(step), args=(value,)).numpy()
    result["loop"] = tf.function(lambda v: strategy.run(loop, args=(v,)))(value).numpy()
    shapes = [(0, 3), (2, 0), (worker, 2)]
    gathered = [strategy.gather(strategy.run(lambda s=shape: tf.zeros(s)), axis=0) for shape in shapes]
    result["nothing"] = np.array([each.shape for each in gathered])
    with tf.GradientTape() as tape:
        tape.watch(value)
        outside = strategy.run(lambda: value * 2.0)
    result["recorded"] = np.array(tape.gradient(outside, value) is not None)
    return result


@scenario
def backup_and_restore():
    class Broken(Exception):
        pass

    class BreakAt(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            if epoch == 2:
                raise Broken

    backup = lambda: keras.callbacks.BackupAndRestore(str(folder / "backup"))
    data = tf.data.Dataset.from_tensor_slices((X, Y)).batch(19)
    model = network(optimizer=lambda: keras.optimizers.Adam(0.01))
    with contextlib.suppress(Broken):
        model.fit(data, epochs=5, verbose=0, callbacks=[backup(), BreakAt()])
    keras.utils.set_random_seed(99)  # a new start has other weights, until they are restored
    return fit(network(optimizer=lambda: keras.optimizers.Adam(0.01)), data, epochs=5, callbacks=[backup()])


run_scenarios(wanted or scenarios, strategy, folder, worker)
