"""Every kind of data that ``fit`` takes, and the use of each row."""

from __future__ import annotations

import itertools
import math
import os
import time
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops

from .registry import Result, add, case
from .training import BATCH, ROWS, integers, numbers, small_network, trained

X, Y = numbers(6), numbers(1, seed=2)
ALONE = "TF_CONFIG" not in os.environ


def on_data(name: str, **fit: Any) -> None:
    def run(folder: Path) -> Result:
        return trained(small_network(), X, Y, **fit)

    add(f"data_{name}", run)


VALIDATION = (numbers(6, seed=5, rows=23), numbers(1, seed=6, rows=23))
on_data("shuffled", shuffle=True)
on_data("in_order", shuffle=False)
on_data("batches_of_one_row", batch_size=1, epochs=1)
on_data("batch_of_all_rows", batch_size=ROWS)
on_data("batch_larger_than_all_rows", batch_size=100)
on_data("validated", validation_data=VALIDATION)
on_data("validated_in_batches_of_5", validation_data=VALIDATION, validation_batch_size=5)
on_data("validated_steps", validation_data=VALIDATION, validation_batch_size=5, validation_steps=2)
on_data("validated_every_second_epoch", validation_data=VALIDATION, validation_freq=2, epochs=4)
on_data("validation_split", validation_split=0.3)
on_data("steps_per_epoch", steps_per_epoch=2, epochs=1)
on_data("initial_epoch", initial_epoch=1, epochs=3)


@case()
def data_uses_of_each_row(folder: Path) -> Result:
    """With the mean of an Embedding as loss and SGD(batch), a weight counts how often its row was used."""
    model = keras.Sequential(
        [keras.Input((1,)), layers.Embedding(ROWS, 1, embeddings_initializer="zeros"), layers.Flatten()]
    )
    result = trained(
        model,
        np.arange(ROWS)[:, None],
        np.zeros((ROWS, 1), "float32"),
        loss=lambda y, p: p[:, 0],
        optimizer=keras.optimizers.SGD(float(BATCH)),
        epochs=3,
    )
    # A row of the smaller last batch weighs more.
    used = -model.get_weights()[0]
    assert used.min() >= 3 - 1e-5
    np.testing.assert_allclose(used.sum(), 3 * BATCH * math.ceil(ROWS / BATCH), rtol=1e-5)
    return result


def two_inputs(names: tuple[str, str] = ("left", "right")) -> keras.Model:
    inputs = [keras.Input((6,), name=name) for name in names]
    both = layers.Concatenate()([layers.Dense(3, activation="tanh")(each) for each in inputs])
    return keras.Model(inputs, layers.Dense(1)(both))


@case()
def data_dictionary(folder: Path) -> Result:
    return trained(two_inputs(), {"left": X, "right": X[::-1].copy()}, Y)


@case()
def data_list_of_inputs(folder: Path) -> Result:
    return trained(two_inputs(), [X, X[::-1].copy()], Y)


@case()
def data_nested_inputs(folder: Path) -> Result:
    class Nested(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = layers.Dense(3, activation="tanh"), layers.Dense(1)

        def call(self, inputs: Any) -> Any:
            (left, more) = inputs
            return {"out": (self.second(self.first(left) * self.first(more["right"])),)}

    model = Nested()
    model.compile("sgd", {"out": ("mse",)})
    data = (X, {"right": X[::-1].copy()})
    history = model.fit(data, {"out": (Y,)}, batch_size=BATCH, epochs=2, verbose=0).history
    return Result(model, history, {"predicted": model.predict(data, verbose=0)["out"][0]})


def pipeline(batch: int = BATCH) -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices((X, Y)).batch(batch)


def on_pipeline(name: str, make: Any, **fit: Any) -> None:
    def run(folder: Path) -> Result:
        return trained(small_network(), make(), **fit)

    add(f"data_{name}", run)


on_pipeline("tf_data", pipeline)
on_pipeline("tf_data_repeated", lambda: pipeline().repeat(), steps_per_epoch=4)
on_pipeline("tf_data_weighted", lambda: pipeline().map(lambda x, y: (x, y, y[:, 0] + 1)))
on_pipeline("tf_data_batches_of_several_sizes", lambda: pipeline(4).concatenate(pipeline(7)))
on_pipeline("tf_data_one_batch", lambda: pipeline(ROWS))
on_pipeline("tf_data_filtered", lambda: pipeline(1).unbatch().filter(lambda x, y: x[0] > 0.3).batch(BATCH))
on_pipeline("tf_data_cached", lambda: pipeline().cache().prefetch(2))
on_pipeline(
    "tf_data_shuffled",
    lambda: tf.data.Dataset.from_tensor_slices((X, Y)).shuffle(50, seed=4).batch(BATCH),
)
on_pipeline(
    "tf_data_interleaved",
    lambda: (
        tf.data.Dataset.range(4)
        .interleave(lambda i: tf.data.Dataset.from_tensor_slices((X, Y)).shard(4, i), cycle_length=2)
        .batch(BATCH)
    ),
)
on_pipeline(
    "tf_data_from_generator",
    lambda: tf.data.Dataset.from_generator(
        lambda: zip(X, Y, strict=True),
        output_signature=(tf.TensorSpec((6,), tf.float32), tf.TensorSpec((1,), tf.float32)),
    ).batch(BATCH),
)


def distributed(dataset: tf.data.Dataset) -> Any:
    return tf.distribute.get_strategy().experimental_distribute_dataset(dataset)


on_pipeline("distributed", lambda: distributed(pipeline()))
on_pipeline(
    "distributed_with_class_weights",
    lambda: distributed(pipeline().map(lambda x, y: (x, tf.cast(y > 0, tf.int32)))),
    class_weight={0: 1.0, 1: 3.0},
)
on_pipeline("distributed_weighted", lambda: distributed(pipeline().map(lambda x, y: (x, y, y[:, 0] + 1))))


def with_rows_of_any_number(x: tf.Tensor, y: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    return tf.ensure_shape(tf.numpy_function(lambda rows: 2 * rows, [x], tf.float32), (None, 6)), y


def full_batches() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices((X, Y)).batch(BATCH, drop_remainder=True)


on_pipeline("tf_data_full_batches", full_batches)
on_pipeline("tf_data_of_unknown_rows", lambda: full_batches().map(with_rows_of_any_number))


@case()
def data_tensors(folder: Path) -> Result:
    return trained(small_network(), tf.constant(X), tf.constant(Y), batch_size=BATCH)


@case()
def data_float64_and_int8(folder: Path) -> Result:
    return trained(small_network(), X.astype("float64"), integers(5, 1).astype("int8"))


@case()
def data_booleans(folder: Path) -> Result:
    return trained(small_network(1, "sigmoid"), X > 0.5, Y > 0.5, loss="binary_crossentropy")


@case()
def data_strings(folder: Path) -> Result:
    words = np.array(["red", "green", "blue"])[integers(3, 2)]
    lookup = layers.StringLookup(vocabulary=["red", "green", "blue"])
    inputs = keras.Input((2,), dtype="string")
    model = keras.Model(inputs, layers.Dense(1)(layers.Flatten()(layers.Embedding(4, 3)(lookup(inputs)))))
    return trained(model, tf.data.Dataset.from_tensor_slices((words, Y)).batch(BATCH))


@case()
def data_text_of_other_lengths(folder: Path) -> Result:
    """Each batch is padded to its longest row, which lies on one of the workers."""
    lengths = integers(9, seed=4) + 1
    tokens = [np.arange(n) % 7 + 1 for n in lengths]
    data = tf.data.Dataset.from_generator(
        lambda: zip(tokens, Y, strict=True),
        output_signature=(tf.TensorSpec((None,), tf.int64), tf.TensorSpec((1,), tf.float32)),
    ).padded_batch(BATCH)
    model = keras.Sequential(
        [layers.Embedding(9, 4, mask_zero=True), layers.GlobalAveragePooling1D(), layers.Dense(1)]
    )
    return trained(model, data)


@case()
def data_ragged(folder: Path) -> Result:
    lengths = integers(9, seed=4) + 1
    rows = tf.ragged.constant([list(np.arange(n) % 7 + 1) for n in lengths], dtype=tf.int64)

    class Pooled(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.out = layers.Embedding(9, 4), layers.Dense(1)

        def call(self, tokens: Any) -> Any:
            return self.out(ops.mean(self.table(tokens.to_tensor(shape=(None, 10))), axis=1))

    return trained(Pooled(), tf.data.Dataset.from_tensor_slices((rows, Y)).batch(BATCH))


@case()
def data_sparse(folder: Path) -> Result:
    rows = tf.sparse.from_dense(np.where(X > 0.6, X, 0))
    model = keras.Sequential([keras.Input((6,), sparse=True), layers.Dense(1)])
    return trained(model, tf.data.Dataset.from_tensor_slices((rows, Y)).batch(BATCH))


@case()
def data_items(folder: Path) -> Result:
    return trained(small_network(), Items(), shuffle=False, validation_data=Items())


@case()
def data_items_of_processes(folder: Path) -> Result:
    """Twice: the children of the first must not keep the second from its end."""
    model = small_network()
    for _ in range(2):
        items = Items(workers=2, use_multiprocessing=True)
        result = trained(model, items, shuffle=False, epochs=1)
    return result


class BuiltFromRows(keras.Model):
    """It knows the number of inputs from the data alone."""

    def build(self, shape: Any) -> None:
        self.kernel = self.add_weight(shape=(shape[-1], 1), initializer="ones")

    def call(self, rows: Any) -> Any:
        return ops.matmul(rows, self.kernel)


@case()
def data_sparse_for_a_subclassed_model(folder: Path) -> Result:
    rows = tf.sparse.from_dense(np.where(X > 0.6, X, 0))
    return trained(BuiltFromRows(), tf.data.Dataset.from_tensor_slices((rows, Y)).batch(BATCH))


@case()
def data_ragged_labels_with_one_number_as_loss(folder: Path) -> Result:
    lengths = np.arange(ROWS) % 5 + 1
    labels = tf.ragged.constant([list(X[i, :n]) for i, n in enumerate(lengths)], dtype=tf.float32)

    def loss(y: Any, p: Any) -> Any:
        return ops.mean(ops.square(tf.reduce_mean(y, axis=1, keepdims=True) - p))

    return trained(small_network(), tf.data.Dataset.from_tensor_slices((X, labels)).batch(BATCH), loss=loss)


class Items(keras.utils.PyDataset):
    """Batches by number, as users write them."""

    def __len__(self) -> int:
        return math.ceil(ROWS / BATCH)

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        rows = slice(index * BATCH, (index + 1) * BATCH)
        return X[rows], Y[rows]


class EndlessItems(Items):
    """Batches without end, which threads read."""

    def __init__(self) -> None:
        super().__init__(workers=2)

    @property
    def num_batches(self) -> None:
        return None

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        return super().__getitem__(index % len(self))


@case()
def data_endless_py_dataset_with_threads(folder: Path) -> Result:
    """Keras stops the threads between two epochs, and refuses to be asked for data then."""
    slow = keras.callbacks.LambdaCallback(on_epoch_end=lambda *_: time.sleep(0.3))
    return trained(small_network(), EndlessItems(), epochs=4, steps_per_epoch=3, callbacks=[slow])


@case()
def data_generator(folder: Path) -> Result:
    def batches() -> Any:
        while True:
            for start in range(0, ROWS, BATCH):
                yield X[start : start + BATCH], Y[start : start + BATCH]

    return trained(small_network(), batches(), steps_per_epoch=3)


@case()
def data_validated_by_a_generator(folder: Path) -> Result:
    def batches() -> Any:
        for i in itertools.count():
            rows = slice(7 * i % 30, 7 * i % 30 + 11)
            yield X[rows], Y[rows]

    # Each epoch continues where the last one has ended.
    return trained(small_network(), X, Y, epochs=3, validation_data=batches(), validation_steps=2)


@case()
def data_tf_data_in_any_order(folder: Path) -> Result:
    options = tf.data.Options()
    options.deterministic = False
    rows = tf.data.Dataset.from_tensor_slices((X, Y)).map(lambda x, y: (2 * x, y), num_parallel_calls=4)
    return trained(small_network(), rows.batch(ROWS).with_options(options), epochs=3)


@case()
def data_tf_data_of_steps_in_any_order(folder: Path) -> Result:
    rows = tf.data.Dataset.range(4).interleave(
        lambda i: tf.data.Dataset.from_tensor_slices((X, Y)).shard(4, i),
        cycle_length=2,
        num_parallel_calls=2,
        deterministic=ALONE,
    )
    rows = rows.map(lambda x, y: (2 * x, y), num_parallel_calls=4, deterministic=ALONE)
    return trained(small_network(), rows.batch(BATCH), epochs=3)


@case()
def data_frames(folder: Path) -> Result:
    import pandas as pd

    columns = [f"column_{i}" for i in range(6)]
    return trained(small_network(), pd.DataFrame(X, columns=columns), pd.Series(Y[:, 0]), batch_size=BATCH)


@case()
def data_without_labels(folder: Path) -> Result:
    model = keras.Sequential([keras.Input((6,)), layers.Dense(2), layers.Dense(6)])
    return trained(model, tf.data.Dataset.from_tensor_slices((X, X)).batch(BATCH))


class OnGraph(keras.Model):
    """A linear model of rows that are multiplied by the matrix that belongs to all of them."""

    def __init__(self) -> None:
        super().__init__()
        self.out = layers.Dense(1)

    def call(self, inputs: Any) -> Any:
        return self.out(ops.matmul(inputs["rows"], inputs["shared"]))


def on_graph(data: tf.data.Dataset) -> Result:
    matrix = np.random.default_rng(8).random((6, 6)).astype("float32")
    return trained(OnGraph(), data.map(lambda x, y: ({"rows": x, "shared": tf.constant(matrix)}, y)))


@case()
def data_graph_without_rows(folder: Path) -> Result:
    """Each element has a matrix that belongs to all of its rows."""
    return on_graph(pipeline())


@case()
def data_graph_without_rows_in_full_batches(folder: Path) -> Result:
    """The number of rows is known when the pipeline is built, as that of the matrix is."""
    return on_graph(full_batches())
