"""A layer with statistics of each worker's own rows."""

import keras


class MovingMean(keras.layers.Layer):
    """Subtract a moving mean."""

    def build(self, shape):
        self.mean = self.add_weight(shape=shape[-1:], initializer="zeros", trainable=False)

    def call(self, x, training=False):
        if training:
            rows = keras.ops.reshape(x, (-1, x.shape[-1]))
            self.mean.assign(0.9 * self.mean + 0.1 * keras.ops.mean(rows, axis=0))
        return x - self.mean
