"""One model on two devices: the first layers on one, the last on the other, and only activations between.

python examples/model_parallel.py [DATASET]
"""

import sys

import keras
import tensorflow as tf

import tfmuster

# Two logical devices of the CPU; with two GPUs: "GPU:0" and "GPU:1".
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
FIRST, SECOND = "CPU:0", "CPU:1"


class Split(keras.Model):
    """A network whose halves live on two devices."""

    def __init__(self):
        super().__init__()
        self.scale = keras.layers.Rescaling(1 / 255)
        self.flatten = keras.layers.Flatten()
        self.hidden = keras.layers.Dense(128, activation="relu")
        self.output_layer = keras.layers.Dense(10)

    def build(self, input_shape):
        # A variable stays on the device on which it is made.
        with tf.device(FIRST):
            self.hidden.build((None, 28 * 28))
        with tf.device(SECOND):
            self.output_layer.build((None, 128))

    def call(self, images):
        with tf.device(FIRST):
            activations = self.hidden(self.flatten(self.scale(images)))
        with tf.device(SECOND):
            return self.output_layer(activations)


dataset = sys.argv[1] if len(sys.argv) > 1 else None
digits = tfmuster.synthetic() if dataset == "synthetic" else tfmuster.mnist(dataset)
model = Split()
model.compile(
    optimizer=keras.optimizers.Adam(0.001),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
model.fit(digits.x_train, digits.y_train, batch_size=128, epochs=2, verbose=2)
for layer in (model.hidden, model.output_layer):
    print(layer.name, "on", tf.DeviceSpec.from_string(layer.kernel.value.device).device_index)
_, accuracy = model.evaluate(digits.x_test, digits.y_test, verbose=0)
print(f"test accuracy {accuracy:.4f}")
