"""Print the seconds from the last callback of each of nine calls of fit to its return."""

import os
import time

import keras
import numpy as np

import tfmuster

# On a core of its own, the thread that is woken too early nearly always goes to sleep again.
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
strategy = tfmuster.strategy("multi_worker_mirrored")
x = np.zeros((64, 8), "float32")
with strategy.scope():
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
ended = []
last = keras.callbacks.LambdaCallback(on_train_end=lambda logs: ended.append(time.perf_counter()))
slow = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: time.sleep(0.01))
for call in range(9):
    model.fit(x, x[:, :1], batch_size=8, epochs=4 + call, verbose=0, callbacks=[slow, last])
    print(time.perf_counter() - ended[-1])
