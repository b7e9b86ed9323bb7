"""Calls that differ between two workers: each is caught and told. tfmuster is only imported to measure."""

import json
import os
import sys
import tempfile
import time

import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
import keras

index = strategy.cluster_resolver.task_id
rng = np.random.default_rng(1)
x, y = rng.normal(size=(260, 8)).astype("float32"), rng.integers(0, 3, 260)
folder = tempfile.mkdtemp(prefix=f"worker-{index}-", dir=".")
own = np.random.default_rng(index).random(260) < 0.8


def model(
    name=None, optimizer="sgd", units=4, *, activation=None, function=None, loss=None, more=(), **options
):
    with strategy.scope():
        made = keras.Sequential(
            [
                keras.Input((8,)),
                keras.layers.Dense(units, name=name, activation=activation),
                keras.layers.Lambda(function or (lambda x: x)),
                *more,
                keras.layers.Dense(3, **options),
            ]
        )
        made.compile(optimizer, loss or keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return made


def scaled(factor):
    return lambda x: factor * x


def decay(rate):
    return keras.optimizers.SGD(keras.optimizers.schedules.ExponentialDecay(rate, 10, 0.9))


def halved(epoch, rate):
    return rate / 2


def slices(rows_x, rows_y, batch=32):
    return tf.data.Dataset.from_tensor_slices((rows_x, rows_y)).batch(batch)


def changed(change):
    """Return a model of which worker 1 has changed something alone."""
    made = model()
    if index == 1:
        change(made)
    return made


def halve_weights(model):
    model.set_weights([weight / 2 for weight in model.get_weights()])


def as_of_other_processors(change):
    """Train a model of which worker 1 has other values, as if the workers had different processors."""
    from tfmuster.keras_compat.agreement import state

    stock, state._arithmetic = state._arithmetic, lambda: f"processor {index}"
    try:
        fit(changed(change), epochs=2)
    finally:
        state._arithmetic = stock


def round_weights(model):
    model.set_weights([weight * np.float32(1 + 1e-6) for weight in model.get_weights()])


class ShufflesByItself(keras.utils.PyDataset):
    """Its order differs from the second epoch on."""

    def __init__(self):
        super().__init__()
        self.order, self.passes = np.arange(260), 0

    def __len__(self):
        return 10

    def __getitem__(self, number):
        rows = self.order[26 * number : 26 * number + 26]
        return x[rows], y[rows]

    def on_epoch_end(self):
        # Keras reads a batch, and ends an epoch, before the first one.
        self.passes += 1
        if self.passes > 1:
            np.random.default_rng(index).shuffle(self.order)


class Halves(keras.optimizers.schedules.LearningRateSchedule):
    """A schedule without a configuration."""

    def __init__(self, rate):
        self.rate = rate

    def __call__(self, step):
        return self.rate / (1.0 + keras.ops.cast(step, "float32"))


class Scaled(keras.layers.Layer):
    """A layer without a configuration, which keeps the time, too."""

    def __init__(self, factor):
        super().__init__()
        self.factor, self.made = factor, time.time()

    def call(self, inputs):
        return self.factor * inputs

    def get_config(self):
        raise NotImplementedError


def changed_at(array, change):
    """Return the array, and on worker 1 with a change in a row that no sample has."""
    array = array.copy()
    array[77] += change * index
    return array


class OwnOrder(ShufflesByItself):
    """Its order differs, but not in the rows that are sampled."""

    def __init__(self):
        super().__init__()
        np.random.default_rng(index).shuffle(self.order[100:200])

    def on_epoch_end(self):
        pass


class SetsRate(keras.callbacks.Callback):
    """The same code on all workers, which does not do the same."""

    def on_epoch_begin(self, epoch, logs=None):
        if epoch == 1 and index == 1:
            self.model.optimizer.learning_rate = 0.5


class HalvesWeights(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        if epoch == 1 and index == 1:
            halve_weights(self.model)


class SeesBatches(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        pass


def of_servers():
    service = tf.data.experimental.service
    dispatcher = service.DispatchServer()
    config = service.WorkerConfig(dispatcher_address=dispatcher.target.split("://")[1])
    server = service.WorkerServer(config)
    distribute = service.distribute(processing_mode="parallel_epochs", service=dispatcher.target)
    # They run as long as somebody has them.
    return slices(x, y).apply(distribute).prefetch(2), server, dispatcher


def of_records(names, add=0.0):
    """Return rows of record files in a folder of this worker."""
    files = []
    for number, name in enumerate(names):
        files.append(os.path.join(folder, name))
        with tf.io.TFRecordWriter(files[-1]) as writer:
            for row in x[26 * number : 26 * number + 26]:
                writer.write(tf.io.serialize_tensor(row + np.float32(add)).numpy())
    rows = tf.data.TFRecordDataset(files).map(
        lambda row: tf.ensure_shape(tf.io.parse_tensor(row, "float32"), [8])
    )
    return rows.map(lambda row: (row, row[0] > 0)).batch(26)


def scaled_rows(factor):
    return slices(x, y).shuffle(10, seed=1).map(lambda a, b: (factor * a, b))


def in_batches(labels=y, seed=3):
    import tfmuster

    return tfmuster.batches(x, labels, 26, seed=seed)


def in_file_batches(names, seed=3):
    import tfmuster

    for number, name in enumerate(names):
        rows = np.hstack([x, y[:, None]])[26 * number : 26 * number + 26]
        np.savetxt(os.path.join(folder, name), rows, delimiter=",", header="a,b,c,d,e,f,g,h,y", comments="")
    files = [os.path.join(folder, name) for name in names]
    return tfmuster.file_batches(files, tfmuster.csv_rows("y"), 26, seed=seed)


def with_epsilon(epsilon):
    stock = keras.config.epsilon()
    keras.config.set_epsilon(epsilon)
    try:
        fit()
    finally:
        keras.config.set_epsilon(stock)


def with_noise(a, b):
    return a + tf.random.uniform([]), b


def fit(made=None, data=None, **options):
    data = (x, y) if data is None else data
    data = data if isinstance(data, tuple) else (data,)
    (made or model()).fit(*data, **{"verbose": 0, "shuffle": False, **options})


shared = model()
permuted = np.random.default_rng(index).permutation(260)
DIFFERENT = {
    "rows of arrays": lambda: fit(data=(x[own], y[own])),
    "steps of a data set": lambda: fit(data=slices(x[: 260 - 40 * index], y[: 260 - 40 * index])),
    "own part": lambda: fit(data=(x[index::2], y[index::2])),
    "order": lambda: fit(data=slices(x[permuted], y[permuted])),
    "shard": lambda: fit(data=slices(x, y).shard(2, index)),
    "batch size": lambda: fit(batch_size=26 - index, steps_per_epoch=10),
    "batch size of a data set": lambda: fit(data=slices(x, y, 26 - index).take(9)),
    "weights": lambda: fit(model(f"own_{'ab'[index]}")),
    "epochs": lambda: fit(epochs=1 + index),
    "optimizer": lambda: fit(model(optimizer=keras.optimizers.SGD(clipnorm=1.0 + index))),
    "schedule": lambda: fit(model(optimizer=decay(0.5 - index / 4))),
    "schedule without a configuration": lambda: fit(
        model(optimizer=keras.optimizers.SGD(Halves(0.5 - index / 4)))
    ),
    "activation": lambda: fit(model(activation=("relu", "tanh")[index])),
    "number of layers": lambda: fit(model(more=[keras.layers.ReLU()] * index)),
    "regularizer": lambda: fit(model(kernel_regularizer=keras.regularizers.L2(0.5 + index))),
    "attribute of a layer": lambda: fit(model(more=[Scaled(1.0 + index)])),
    "precision of a layer": lambda: fit(model(dtype=("float32", "mixed_bfloat16")[index])),
    "one row": lambda: fit(data=(changed_at(x, 1.0), y)),
    "one label": lambda: fit(data=(x, changed_at(y, 1))),
    "one sample weight": lambda: fit(sample_weight=changed_at(np.ones(260, "float32"), 1.0)),
    "loss": lambda: fit(model(loss=("sparse_categorical_crossentropy", "mse")[index])),
    "constant of a function": lambda: fit(model(function=scaled(2.0 + index))),
    "code of a function": lambda: fit(model(function=(lambda x: x + 1) if index else lambda x: x - 1)),
    "class weights": lambda: fit(class_weight={0: 1.0, 1: 2.0 + index, 2: 1.0}),
    "callback that sets": lambda: fit(
        callbacks=[keras.callbacks.LearningRateScheduler(halved)] if index == 0 else None
    ),
    "setting of a callback": lambda: fit(
        callbacks=[keras.callbacks.EarlyStopping("loss", patience=2 + index)]
    ),
    "values of weights": lambda: fit(changed(halve_weights)),
    "values of weights on other processors": lambda: as_of_other_processors(halve_weights),
    "learning rate": lambda: fit(changed(lambda made: setattr(made.optimizer, "learning_rate", 0.5))),
    "learning rate that a callback sets": lambda: fit(callbacks=[SetsRate()], epochs=4),
    "weights that a callback sets": lambda: fit(callbacks=[HalvesWeights()], epochs=4),
    "values before predict": lambda: changed(halve_weights).predict(x, verbose=0),
    "rows of servers": lambda: fit(data=of_servers()[0]),
    "order of a later epoch": lambda: fit(data=ShufflesByItself(), epochs=4),
    "order within evaluate": lambda: shared.evaluate(OwnOrder(), verbose=0),
    "seed of batches": lambda: fit(data=in_batches(seed=index)),
    "labels of batches": lambda: fit(data=in_batches(changed_at(y, 1))),
    "seed of batches of files": lambda: fit(data=in_file_batches(("a.csv", "b.csv"), seed=index)),
    "order of batches of files": lambda: fit(data=in_file_batches(("a.csv", "b.csv")[:: 1 - 2 * index])),
    "order of files": lambda: fit(data=of_records(("a.rec", "b.rec")[:: 1 - 2 * index])),
    "rows of files": lambda: fit(data=of_records(("a.rec", "b.rec"), add=index / 8)),
    "function of a data set": lambda: fit(data=scaled_rows(0.5 + index)),
    "setting of Keras": lambda: with_epsilon(1e-7 + index / 1000),
    "validation": lambda: fit(validation_data=(x, y) if index == 0 else None),
    "evaluate": lambda: shared.evaluate(x[own], y[own], verbose=0),
    "predict": lambda: shared.predict(x[own], verbose=0),
    "call": lambda: fit(shared) if index == 0 else shared.evaluate(x, y, verbose=0),
    # The seed of an operation is the number of random operations before it.
    "seed": lambda: (index or tf.random.uniform([1]), fit(data=slices(x, y).shuffle(260))),
}
EQUAL = {
    "rows of files": lambda: fit(data=of_records(("a.rec", "b.rec")), epochs=2),
    "batches": lambda: fit(data=in_batches()),
    "batches of files": lambda: fit(data=in_file_batches(("a.csv", "b.csv"))),
    "shuffled rows": lambda: fit(data=scaled_rows(0.5), epochs=2),
    "fit": lambda: fit(validation_split=0.2, epochs=2),
    "a callback of one worker": lambda: fit(callbacks=[SeesBatches()] if index == 0 else None),
    "a log of one worker": lambda: fit(
        callbacks=[keras.callbacks.TerminateOnNaN()] + [SeesBatches()] * index
    ),
    "functions that are made anew": lambda: fit(model(function=scaled(2.0))),
    "attributes of a layer": lambda: fit(model(more=[Scaled(2.0)])),
    "names of layers": lambda: (index or keras.Sequential([keras.layers.Dense(2)]), fit()),
    "random inputs": lambda: fit(
        data=slices(x, y).map(lambda a, b: (a + tf.random.uniform([]), b), 2), epochs=2
    ),
    "unknown length": lambda: fit(data=slices(x, y).filter(lambda a, _: tf.size(a) > 0), epochs=2),
    "numbers that differ in the last digits": lambda: fit(data=(x * (1 + 1e-6 * index), y)),
    "weights that other processors round": lambda: as_of_other_processors(round_weights),
    "predict": lambda: shared.predict(x, verbose=0),
}


def tell(**what):
    # Both workers write to one pipe, so write a line in one piece.
    os.write(1, (json.dumps(what) + "\n").encode())


def evaluate_alone(*_, **__):
    if index == 0:
        tell(alone=True)
        shared.evaluate(x, y, verbose=0)


if "alone" in sys.argv:
    moment = {"epoch": "on_epoch_end", "batch": "on_train_batch_end"}[sys.argv[-1]]
    fit(shared, epochs=3, callbacks=[keras.callbacks.LambdaCallback(**{moment: evaluate_alone})])
    sys.exit()
if "shape" in sys.argv:
    # As if each worker took the number of classes from its own rows.
    model(units=4 + index)
if "variable" in sys.argv:
    with strategy.scope():
        sample = keras.random.normal((2,)) if index == 0 else None
        keras.layers.Dense(3).build((None, 8))
if "rows" in sys.argv:
    with strategy.scope():
        some = keras.layers.Lambda(lambda rows: tf.boolean_mask(rows, rows[:, 0] > 0.3))
        keeps_some = keras.Sequential([keras.Input((8,)), some])
    keeps_some.predict(x, verbose=0)
for name, call in EQUAL.items():
    call()
    tell(equal=name)
for name, call in DIFFERENT.items():
    begun = time.perf_counter()
    try:
        call()
    except Exception as error:
        tell(
            different=name,
            error=type(error).__name__,
            text=str(error),
            reason=error.fields["reason"],
            seconds=time.perf_counter() - begun,
        )
    else:
        tell(different=name, error=None)

# The time of the comparison, without waiting for the other worker.
from tfmuster.keras_compat.agreement import comparison
from tfmuster.keras_compat.process import PROCESS

seconds = []
stock = comparison.agree_on_call


def timed(*args, **kwargs):
    PROCESS.compare("both are here", {})
    begun = time.perf_counter()
    try:
        return stock(*args, **kwargs)
    finally:
        seconds.append(time.perf_counter() - begun)


from tfmuster.keras_compat.steps import predicting, trainer

predicting.agree_on_call = trainer.agree_on_call = timed
data = slices(x, y).shuffle(260, seed=1)
for name, call in {
    "predict": lambda: shared.predict(x, verbose=0),
    "fit": lambda: fit(shared),
    "fit with a data set": lambda: fit(shared, data),
}.items():
    for _ in range(9):
        call()
    tell(compared=name, least=min(seconds))
    seconds.clear()
