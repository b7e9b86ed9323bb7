"""Train on a folder of 80 images so that each weight tells how often its image has been read."""

import sys
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

IMAGES, BATCH = 80, 8

strategy = tf.distribute.MultiWorkerMirroredStrategy()
folder = Path(sys.argv[1])
data = keras.utils.image_dataset_from_directory(folder, image_size=(4, 4), batch_size=BATCH, verbose=False)


class OneHot(keras.Layer):
    def call(self, images):
        gray = keras.ops.mean(images, axis=(1, 2, 3))
        return keras.ops.one_hot(keras.ops.cast(keras.ops.round(gray / 3), "int32"), IMAGES)


with strategy.scope():
    model = keras.Sequential(
        [keras.Input((4, 4, 3)), OneHot(), keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")]
    )
    # Each row that is read moves the weight of its image by -1.
    model.compile(keras.optimizers.SGD(float(BATCH)), loss=lambda _, outputs: outputs)
model.fit(data, epochs=1, verbose=0)
print("read", np.unique(-model.get_weights()[0].round(3), return_counts=True))
