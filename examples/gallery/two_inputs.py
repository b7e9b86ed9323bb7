"""How many bicycles are rented in an hour? Numbers of the weather, and the station as a category.

python examples/gallery/two_inputs.py                   # one process
tfmuster launch -n 2 examples/gallery/two_inputs.py     # two workers
"""

import tfmuster

strategy = tfmuster.strategy("multi_worker_mirrored" if tfmuster.current_task() else "default")

import keras  # noqa: E402
import numpy as np  # noqa: E402
from keras import layers  # noqa: E402

keras.utils.set_random_seed(1)

HOURS, STATIONS = 2_000, 25

draw = np.random.default_rng(0)
weather = draw.normal(size=(HOURS, 3)).astype("float32")
station = draw.integers(0, STATIONS, (HOURS, 1))
popularity = draw.normal(size=STATIONS)
rented = 2 + weather @ [1.0, -0.5, 0.0] + popularity[station[:, 0]] + draw.normal(0, 0.1, HOURS)
rented = rented.astype("float32")

with strategy.scope():
    numbers = keras.Input((3,), name="weather")
    category = keras.Input((1,), name="station", dtype="int64")
    both = layers.Concatenate()([numbers, layers.Flatten()(layers.Embedding(STATIONS, 4)(category))])
    hidden = layers.Dense(32, activation="tanh")(both)
    model = keras.Model({"weather": numbers, "station": category}, layers.Dense(1)(hidden))
    model.compile(keras.optimizers.Adam(0.01), "mse", metrics=["mae"])

history = model.fit(
    {"weather": weather, "station": station},
    rented,
    batch_size=100,
    epochs=6,
    validation_split=0.2,
    verbose=0,
).history
print(f"loss {history['loss'][-1]:.4f}, on unseen hours {history['val_loss'][-1]:.4f}")
