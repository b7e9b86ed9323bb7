"""One of four workers, started manually on each machine with the number of that machine.

python examples/four_workers.py 0      # on 172.31.11.122, and 1, 2, 3 on the others

To try it on one machine, name other addresses and a data set:

TFMUSTER_WORKERS=localhost:10090,localhost:10088 TFMUSTER_DATASET=synthetic python examples/four_workers.py 0
"""

import os
import sys

import tfmuster

if len(sys.argv) != 2 or not sys.argv[1].isdigit():
    sys.exit("four_workers.py needs the number of this worker, 0 to 3: python examples/four_workers.py 0")
addresses = os.environ.get(
    "TFMUSTER_WORKERS", "172.31.11.122:10090,172.31.10.143:10088,172.31.4.119:10087,172.31.4.116:10089"
)
cluster = tfmuster.Cluster(worker=addresses.split(","))
tfmuster.use_tf_config(cluster.task("worker", int(sys.argv[1])))

# Before anything else that uses TensorFlow. It waits for the other workers, a minute at most.
strategy = tfmuster.strategy("multi_worker_mirrored")

import keras  # noqa: E402

dataset = os.environ.get("TFMUSTER_DATASET")
digits = tfmuster.synthetic() if dataset == "synthetic" else tfmuster.mnist(dataset)

with strategy.scope():
    model = keras.Sequential(
        [
            keras.Input((28, 28), dtype="uint8"),
            keras.layers.Rescaling(1 / 255),
            keras.layers.Reshape((28, 28, 1)),
            keras.layers.Conv2D(32, 3, activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Flatten(),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(10),
        ]
    )
    model.compile(
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        optimizer=keras.optimizers.SGD(learning_rate=0.001),
        metrics=["accuracy"],
    )

history = model.fit(
    digits.x_train, digits.y_train, batch_size=64 * len(cluster), epochs=3, steps_per_epoch=5, verbose=0
)
print(history.history)

# Every worker calls this; the chief writes.
path = tfmuster.save_model(model, os.environ.get("TFMUSTER_MODEL", "model.keras"), strategy=strategy)
if path is not None:
    print("The model is in", path)
