"""Programs that work in one process, with what differs between processes: sets, chance, order, one alone.

Each prints its numbers, or its error. Started as one process, they are right.
"""

import json
import random
import sys
import tempfile
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

import tfmuster

strategy = tfmuster.strategy("multi_worker_mirrored")
task = tfmuster.current_task()
layers = keras.layers
rng = np.random.default_rng(0)
X = rng.normal(size=(80, 6)).astype("float32")
Y = X.sum(1, keepdims=True)


def small_model(optimizer="sgd", **dense):
    keras.utils.set_random_seed(1)
    with strategy.scope():
        model = keras.Sequential([keras.Input((6,)), layers.Dense(1, **dense)])
        model.compile(optimizer, "mse")
    return model


def trained(model, x, y=None, **fit):
    history = model.fit(x, y, batch_size=None if y is None else 16, verbose=0, **fit).history
    return {"loss": history["loss"], "weights": [float(np.abs(w).sum()) for w in model.get_weights()]}


def layers_from_a_set():
    features = {"colour", "brand", "city", "device", "browser"}
    ids = {name: np.random.default_rng(len(name)).integers(0, 8, 80)[:, None] for name in sorted(features)}
    keras.utils.set_random_seed(1)
    with strategy.scope():
        inputs = {name: keras.Input((1,), name=name, dtype="int32") for name in features}
        outputs = [layers.Flatten()(layers.Embedding(8, 2)(inputs[name])) for name in features]
        model = keras.Model(inputs, layers.Dense(1)(layers.Concatenate()(outputs)))
        model.compile(keras.optimizers.Adam(0.05), "mse")
    result = trained(model, ids, Y, epochs=5, shuffle=False)
    return {**result, "order": list(features), "predicted": float(model.predict(ids, verbose=0).sum())}


def vocabulary_from_a_set():
    words = [f"w{number}" for number in range(20)]
    picked = np.random.default_rng(0).integers(0, 20, 640)
    keras.utils.set_random_seed(1)
    with strategy.scope():
        lookup = layers.StringLookup(vocabulary=list(set(words)))
        word = keras.Input((1,), dtype="string")
        hidden = layers.Flatten()(layers.Embedding(21, 8)(lookup(word)))
        model = keras.Model(word, layers.Dense(1, activation="sigmoid")(hidden))
        model.compile(keras.optimizers.Adam(0.05), "binary_crossentropy", metrics=["accuracy"])
    data = tf.constant(np.array(words)[picked][:, None]), (picked % 2).astype("float32")
    history = model.fit(*data, batch_size=32, epochs=15, verbose=0).history
    return {"accuracy": history["accuracy"][-1]}


def generator_of_its_own():
    """As a library has it that draws hyperparameters."""
    drawn = random.Random()
    rate = keras.optimizers.schedules.ExponentialDecay(drawn.uniform(0.01, 0.1), 10, 0.9)
    return trained(small_model(keras.optimizers.SGD(rate)), X, Y, epochs=2)


def order_of_files():
    """At a rate of 0 and zero weights, the loss of each epoch is the mean of y^2 if each row is read once."""
    folder = Path(tempfile.mkdtemp())
    for number in range(8):
        with tf.io.TFRecordWriter(f"{folder}/{number}.tfrecord") as file:
            for row in range(10 * number, 10 * number + 10):
                file.write(np.concatenate([X[row], Y[row]]).tobytes())

    def parsed(record):
        row = tf.reshape(tf.io.decode_raw(record, tf.float32), [7])
        return row[:6], row[6:]

    files = tf.data.Dataset.from_tensor_slices([f"{folder}/{number}.tfrecord" for number in range(8)])
    rows = files.interleave(
        tf.data.TFRecordDataset, cycle_length=4, num_parallel_calls=tf.data.AUTOTUNE, deterministic=False
    )
    model = small_model(keras.optimizers.SGD(0.0), kernel_initializer="zeros")
    return {**trained(model, rows.map(parsed).batch(16), epochs=3), "right": float((Y**2).mean())}


def stop_between_two_batches():
    class Limit(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            self.model.stop_training = batch == 2 and task.index == strategy.num_replicas_in_sync - 1

    history = small_model().fit(X, Y, batch_size=16, epochs=3, verbose=0, callbacks=[Limit()])
    return {"epochs": len(history.epoch)}


def weights_on_the_chief_alone():
    model = small_model()
    model.fit(X, Y, batch_size=16, verbose=0)
    if task.is_chief:
        model.set_weights([weight * 0 + 0.3 for weight in model.get_weights()])
    return trained(model, X, Y)


def schedule_on_the_chief_alone():
    halves = keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate * 0.5)
    return trained(small_model(), X, Y, epochs=3, callbacks=[halves] if task.is_chief else [])


def activation_of_a_stale_copy():
    return trained(small_model(activation="relu" if task.is_chief else "tanh"), X, Y)


def dropout_of_a_stale_copy():
    keras.utils.set_random_seed(1)
    with strategy.scope():
        model = keras.Sequential([layers.Dropout(0.2 if task.is_chief else 0.5), layers.Dense(1)])
        model.compile("sgd", "mse")
    return trained(model, X, Y)


def result_of(program):
    try:
        return program()
    except tfmuster.TfmusterError as error:
        return {"error": str(error)}


PROGRAMS = (
    layers_from_a_set,
    vocabulary_from_a_set,
    generator_of_its_own,
    order_of_files,
    stop_between_two_batches,
    weights_on_the_chief_alone,
    schedule_on_the_chief_alone,
    activation_of_a_stale_copy,
    dropout_of_a_stale_copy,
)
json.dump({program.__name__: result_of(program) for program in PROGRAMS}, sys.stdout)
print()
