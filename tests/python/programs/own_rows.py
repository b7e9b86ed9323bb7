"""Train on rows of which each worker has its own, and write what came of each way, for test_own_rows.py.

Usage: own_rows.py FOLDER [SCENARIO...]; writes FOLDER/<scenario>-<worker>.npz. Without TF_CONFIG it is one
process that trains on the workers' batches, put together.
"""

import functools
import json
import os
import sys
from pathlib import Path

import numpy as np

folder, wanted = Path(sys.argv[1]), sys.argv[2:]
config = json.loads(os.environ.get("TF_CONFIG", "{}"))
worker = config["task"]["index"] if config else None
WORKERS = len(config["cluster"]["worker"]) if config else int(os.environ["WORKERS"])

import tfmuster

strategy = tfmuster.strategy("multi_worker_mirrored" if config else "default")

import keras
import tensorflow as tf
from moving import MovingMean
from scenarios import run_scenarios, scenario, scenarios

SIDE, CLASSES = 6, 3
#: Rows and batch size of each worker: unequal, with partial last batches.
ROWS, BATCH = [70, 43, 64, 5], [16, 8, 8, 16]
rng = np.random.default_rng(0)
PARTS = [
    (rng.random((rows, SIDE, SIDE, 1)).astype("float32"), rng.integers(0, CLASSES, rows)) for rows in ROWS
][:WORKERS]
mine = PARTS[worker or 0]


def batches(part, size):
    return [tuple(a[i : i + size] for a in part) for i in range(0, len(part[0]), size)]


def combined(passes=1, steps=None, parts=PARTS, sizes=BATCH):
    """The batches of all workers, put together step by step."""
    own = [batches(part, size) * passes for part, size in zip(parts, sizes)]
    count = steps or max(map(len, own))
    return [
        tuple(np.concatenate(arrays) for arrays in zip(*[each[i] for each in own if i < len(each)]))
        for i in range(count)
    ]


def of_all(**kwargs):
    """What one process trains on instead."""
    together = combined(**kwargs)
    width = len(together[0])
    specs = (
        tf.TensorSpec((None, SIDE, SIDE, 1), tf.float32),
        tf.TensorSpec((None,), tf.int64),
        tf.TensorSpec((None,), tf.float32),
    )
    data = tf.data.Dataset.from_generator(lambda: iter(together), output_signature=specs[:width])
    return data.apply(tf.data.experimental.assert_cardinality(len(together)))


def dataset(part=None, size=None):
    return tf.data.Dataset.from_tensor_slices(part or mine).batch(size or BATCH[worker or 0])


made = {}


def network(*, middle=(), l2=0.0, **compile_arguments):
    """A compiled model with its first weights. The same arguments give the same model: tracing takes long."""
    key = repr((middle, l2, compile_arguments))
    if key not in made:
        made[key] = model = _network(middle, l2, compile_arguments)
        model.optimizer.build(model.trainable_variables)
        model.first = [variable.numpy() for variable in (*model.variables, *model.optimizer.variables)]
    model = made[key]
    for variable, value in zip((*model.variables, *model.optimizer.variables), model.first):
        variable.assign(value)
    return model


def _network(middle, l2, compile_arguments):
    regularizer = keras.regularizers.L2(l2) if l2 else None
    model = keras.Sequential(
        [
            keras.Input((SIDE, SIDE, 1)),
            keras.layers.Conv2D(4, 3, activation="relu", kernel_regularizer=regularizer),
            keras.layers.Flatten(),
            *(layer() for layer in middle),
            keras.layers.Dense(CLASSES),
        ]
    )
    model.compile(
        optimizer=keras.optimizers.SGD(0.1, momentum=0.9),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        **compile_arguments,
    )
    return model


def fit(model, own, alone=None, **kwargs):
    data = own() if config else (alone or of_all)()
    return {"history": model.fit(data, verbose=0, **{"epochs": 2, **kwargs}).history, "model": model}


@scenario
def data_sets():
    return fit(network(), lambda: tfmuster.own_rows(dataset()))


@scenario
def transformed_afterwards():
    return fit(network(), lambda: tfmuster.own_rows(dataset()).map(lambda x, y: (x, y)).prefetch(2))


@scenario
def weights_of_rows():
    weigh = lambda part: (*part, np.linspace(0, 2, len(part[0])).astype("float32"))
    return fit(
        network(l2=0.01),
        lambda: tfmuster.own_rows(*weigh(mine), batch_size=BATCH[worker]),
        lambda: of_all(parts=[weigh(part) for part in PARTS]),
    )


@scenario
def from_function():
    return fit(network(), lambda: strategy.distribute_datasets_from_function(lambda context: dataset()))


@scenario
def unknown_lengths():
    return fit(network(), lambda: tfmuster.own_rows(dataset().filter(lambda x, y: tf.shape(x)[0] > 0)))


@scenario
def repeated():
    return fit(
        network(),
        lambda: tfmuster.own_rows(dataset().repeat()),
        lambda: of_all(passes=9, steps=8),
        steps_per_epoch=4,
    )


@scenario
def chosen_steps_per_execution():
    return fit(network(steps_per_execution=4), lambda: tfmuster.own_rows(dataset()))


@scenario
def eagerly():
    return fit(network(run_eagerly=True), lambda: tfmuster.own_rows(dataset()), epochs=1)


class Items(keras.utils.PyDataset):
    def __init__(self, parts, **kwargs):
        super().__init__(**kwargs)
        self.parts = parts

    def __len__(self):
        return len(self.parts)

    def __getitem__(self, index):
        return self.parts[index]


@scenario
def items():
    return fit(
        network(),
        lambda: tfmuster.own_rows(Items(batches(mine, BATCH[worker]), workers=2)),
        shuffle=False,
    )


@scenario
def generators():
    return fit(
        network(), lambda: tfmuster.own_rows(batch for batch in batches(mine, BATCH[worker])), epochs=1
    )


@scenario
def one_worker_has_none():
    """The last worker has no row at all."""
    none = tuple(array[:0] for array in PARTS[-1])
    own = none if worker == WORKERS - 1 else mine
    return fit(
        network(),
        lambda: tfmuster.own_rows(dataset(own)),
        lambda: of_all(parts=PARTS[:-1], sizes=BATCH[: WORKERS - 1]),
        epochs=1,
    )


@scenario
def validated_and_predicted():
    model = network()
    own = lambda: tfmuster.own_rows(dataset())
    result = fit(model, own, validation_data=own() if config else of_all())
    result["evaluated"] = model.evaluate(own() if config else of_all(), verbose=0)
    result["evaluated_as_usual"] = model.evaluate(*PARTS[0], verbose=0)
    predicted = model.predict(own(), verbose=0)
    if config:
        assert predicted.shape == (len(mine[0]), CLASSES), predicted.shape
        everyone = [model.predict(tfmuster.own_rows(dataset(part, 9)), verbose=0) for part in PARTS]
        np.testing.assert_allclose(predicted, everyone[worker], atol=1e-6)
    result["predicted"] = model.predict(PARTS[0][0], verbose=0)
    return result


@scenario
def batch_norm():
    return fit(network(middle=[keras.layers.BatchNormalization]), lambda: tfmuster.own_rows(dataset()))


@scenario
def moving_statistics():
    return fit(network(middle=[MovingMean]), lambda: tfmuster.own_rows(dataset()))


@scenario
def executions():
    """Steps that one execution has, and epochs end with their last step."""
    ends = []

    class Count(keras.callbacks.Callback):
        needs_batches = False

        def on_train_batch_end(self, batch, logs=None):
            ends.append(batch)

    own = lambda: tfmuster.own_rows(dataset(size=2))
    result = fit(network(), own, lambda: of_all(sizes=[2] * WORKERS), epochs=4, callbacks=[Count()])
    steps = -(-max(ROWS[:WORKERS]) // 2)
    if config:
        assert len(ends) < 2 * steps, ends
        assert max(ends) == steps - 1, ends
    return result


@scenario
def custom_loop():
    """Every row once, in this worker's batches as they are."""
    if not config:
        return {"history": {}, "model": network()}
    distributed = strategy.experimental_distribute_dataset(tfmuster.own_rows(dataset()))
    step = tfmuster.distributed_step(
        strategy,
        lambda batch: (tf.reduce_sum(batch[0]), tf.cast(tf.shape(batch[0])[0], tf.float32)),
        reduce="sum",
    )
    iterator, found = iter(distributed), []
    for _ in range(-(-ROWS[0] // BATCH[0])):
        found.append([float(value) for value in step(iterator)])
    for (total, rows), together in zip(found, combined(), strict=False):
        assert rows == len(together[0]), (rows, len(together[0]))
        np.testing.assert_allclose(total, together[0].sum(), rtol=1e-5)
    return {"history": {}, "model": network()}


@scenario
def shard_and_off():
    """The line of TensorFlow's guide: the mean of the rows that a training has seen."""
    seen = keras.metrics.Mean(name="seen")

    class Seen(keras.Model):
        def __init__(self):
            super().__init__()
            self.out = keras.layers.Dense(1)
            self.seen = seen

        def call(self, x):
            return self.out(x)

        def train_step(self, data):
            self.seen.update_state(data[0])
            return super().train_step(data)

    model = Seen()
    model.compile("sgd", "mse")
    rows = np.arange(800, dtype="float32")[:, None]
    data = tf.data.Dataset.from_tensor_slices((rows, rows / 800))
    if config:
        options = tf.data.Options()
        options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
        data = data.shard(WORKERS, worker).batch(50).with_options(options)
    else:
        data = data.batch(100)
    history = model.fit(data, verbose=0).history
    assert abs(history["seen"][0] - 399.5) < 1e-3, history
    return {"history": {"seen": history["seen"]}, "model": network()}


class OfTheBatch(keras.layers.BatchNormalization):
    def call(self, x):
        return super().call(x, training=True)


class AllRows(keras.layers.Layer):
    def call(self, x):
        return x - keras.ops.mean(tfmuster.all_rows(x), axis=0)


@scenario
def refusals():
    found = []

    def refused(call):
        try:
            call()
        except tfmuster.TfmusterError as error:
            found.append(f"{error.kind} {error.fields['reason']}: {error.found}")
        else:
            found.append("accepted")

    if config:
        ends = dataset() if worker else dataset().repeat()
        refused(lambda: network().fit(tfmuster.own_rows(ends), verbose=0))
        for layer in (OfTheBatch, AllRows):
            model = network(middle=[layer])
            refused(functools.partial(model.predict, tfmuster.own_rows(dataset()), verbose=0))
    refused(lambda: tfmuster.own_rows(dataset(), batch_size=3))
    refused(lambda: tfmuster.own_rows(mine[0], mine[1][1:]))
    refused(lambda: tfmuster.own_rows(mine[0], batch_size=0))
    print(*found, sep="\n", flush=True)
    return {"history": {}, "model": network()}


run_scenarios(wanted or scenarios, strategy, folder, worker or 0)
