"""What a user of Keras 3 has without tfmuster: fails under several workers."""

import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
import keras

with strategy.scope():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
    model.compile("sgd", "mse")
model.fit(np.ones((8, 4)), np.ones((8, 2)), batch_size=4, verbose=0)
