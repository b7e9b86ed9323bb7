"""Circles, squares, and triangles: a folder of PNG files with one folder a class.

python examples/gallery/image_folder.py [FOLDER]                  # one process
tfmuster launch -n 2 examples/gallery/image_folder.py [FOLDER]    # two workers
"""

import sys
import tempfile
from pathlib import Path

import tfmuster

strategy = tfmuster.strategy("multi_worker_mirrored" if tfmuster.current_task() else "default")

import keras  # noqa: E402
import numpy as np  # noqa: E402
from keras import layers  # noqa: E402

keras.utils.set_random_seed(1)

SIDE, IMAGES = 32, 600


def shape(kind, draw):
    """Return an RGB image, uint8 of shape (SIDE, SIDE, 3)."""
    y, x = np.mgrid[:SIDE, :SIDE]
    row, column = draw.integers(12, SIDE - 12, 2)
    size = draw.integers(6, 11)
    inside = {
        "circle": (x - column) ** 2 + (y - row) ** 2 < size**2,
        "square": (abs(x - column) < size) & (abs(y - row) < size),
        "triangle": (y < row + size) & (2 * abs(x - column) < y - row + size),
    }[kind]
    image = draw.integers(0, 90, (SIDE, SIDE, 3))
    image[inside] += draw.integers(100, 160, 3)
    return image.astype("uint8")


# Every worker makes the same folder of its own; with your own images, pass the folder.
folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
if not any(folder.iterdir()):
    draw = np.random.default_rng(0)
    for number in range(IMAGES):
        kind = ("circle", "square", "triangle")[number % 3]
        (folder / kind).mkdir(exist_ok=True)
        keras.utils.save_img(folder / kind / f"{number}.png", shape(kind, draw))

training, validation = keras.utils.image_dataset_from_directory(
    folder, image_size=(SIDE, SIDE), batch_size=48, validation_split=0.2, subset="both", seed=3
)

with strategy.scope():
    model = keras.Sequential(
        [
            keras.Input((SIDE, SIDE, 3)),
            layers.Rescaling(1 / 255),
            layers.Conv2D(16, 3, strides=2, activation="relu"),
            layers.Conv2D(32, 3, strides=2, activation="relu"),
            layers.GlobalMaxPooling2D(),
            layers.Dense(3),
        ]
    )
    model.compile(
        keras.optimizers.Adam(0.003),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )

# The data set shuffles itself; Keras would warn that it can't.
history = model.fit(training, validation_data=validation, epochs=8, shuffle=False, verbose=0).history
print(
    f"loss {history['loss'][-1]:.4f}, on unseen images {history['val_loss'][-1]:.4f}, "
    f"accuracy {history['val_accuracy'][-1]:.3f}"
)
