"""Two workers of which one does not come: it sleeps, it ends, or its data do. Without tfmuster."""

import atexit
import contextlib
import os
import sys
import time

if sys.argv[1:] == ["stop", "stays"]:
    # Registered first, it runs last: the process stays for a while after it has told that it is done.
    atexit.register(time.sleep, 8)

import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
import keras

how = sys.argv[1]
index = strategy.cluster_resolver.task_id
if how == "before" and index == 1:
    sys.exit(0)
x, y = np.ones((256, 8), "float32"), np.zeros(256, "int64")
with strategy.scope():
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(3)])
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))


class Sleep(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        if epoch == 1 and index == 1:
            print("asleep", flush=True)
            time.sleep(600)


class Slow(keras.callbacks.Callback):
    """Computes for longer than the limit, and later saves for long."""

    def on_epoch_end(self, epoch, logs=None):
        until = time.monotonic() + 6
        while index == epoch and time.monotonic() < until:
            np.ones((400, 400)) @ np.ones((400, 400))


class Enough(Exception):
    pass


class Stop(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        if epoch == 1 and index == 1:
            raise Enough


class Leave(keras.callbacks.Callback):
    """Ends the program in mid-epoch, by Python's way or by the kernel's, on worker 0 or 1."""

    def on_train_batch_end(self, batch, logs=None):
        if batch == 2 and index == int(sys.argv[3]):
            {"exit": sys.exit, "vanish": os._exit}[sys.argv[2]](0)


def unequal():
    for _ in range(7 - 2 * index):
        yield x[:32], y[:32]


def own_loop():
    @tf.function
    def step():
        context = tf.distribute.get_replica_context()
        return context.all_reduce("SUM", tf.ones([4]))

    for number in range(20):
        if number == 5 and index == 1:
            print("asleep", flush=True)
            time.sleep(600)
        strategy.run(step)


callbacks = {"sleep": Sleep, "slow": Slow, "stop": Stop, "leave": Leave}
print("begins", flush=True)
if how in callbacks:
    with contextlib.suppress(Enough):
        model.fit(x, y, epochs=4, verbose=0, callbacks=[callbacks[how]()])
elif how == "data":
    spec = (tf.TensorSpec((None, 8)), tf.TensorSpec((None,), tf.int64))
    model.fit(tf.data.Dataset.from_generator(unequal, output_signature=spec), epochs=2, verbose=0)
else:
    own_loop()
print("ends", flush=True)
