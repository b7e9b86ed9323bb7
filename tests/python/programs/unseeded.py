"""Print what a program draws that has seeded nothing but NumPy, before and after the strategy is made."""

import random

import keras
import numpy as np
import tensorflow as tf

import tfmuster

np.random.seed(3)
random.random()
tfmuster.strategy("multi_worker_mirrored")
print([int(x) for x in tf.data.Dataset.range(1000).shuffle(1000).take(20)])
print("drawn", random.random(), np.random.default_rng().random(), float(keras.random.uniform(())))
print("own", np.random.rand() == np.random.RandomState(3).rand())
