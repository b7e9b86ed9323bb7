"""tf-keras (Keras 2) under tfmuster's strategy: prints the history and a weight's sum."""

import numpy as np
import tensorflow as tf

import tfmuster

strategy = tfmuster.strategy("multi_worker_mirrored")
tf.keras.utils.set_random_seed(1)
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.layers.Dense(2, input_shape=(4,))])
    model.compile("sgd", "mse")
assert type(model).__module__.startswith("tf_keras")
history = model.fit(np.ones((8, 4)), np.ones((8, 2)), batch_size=4, epochs=2, verbose=0).history
print(history, float(np.sum(model.get_weights()[0])))
