"""Is a film review positive? Sentences of different lengths, an Embedding, an LSTM, and attention over it.

python examples/gallery/text.py                     # one process
tfmuster launch -n 2 examples/gallery/text.py       # two workers
"""

import tfmuster

strategy = tfmuster.strategy("multi_worker_mirrored" if tfmuster.current_task() else "default")

import keras  # noqa: E402
import numpy as np  # noqa: E402
from keras import layers  # noqa: E402

keras.utils.set_random_seed(1)

GOOD = ("wonderful", "moving", "clever", "brilliant", "warm", "funny", "gripping", "fresh")
BAD = ("dull", "clumsy", "boring", "endless", "cheap", "hollow", "noisy", "tired")
OTHER = (
    "the",
    "film",
    "its",
    "story",
    "a",
    "little",
    "some",
    "plot",
    "music",
    "actors",
    "scenes",
    "but",
    "very",
)
WORDS, LENGTH, REVIEWS = 40, 24, 1_000


def reviews(count, seed):
    """Return sentences, and 1 for each that has more good words than bad ones."""
    draw = np.random.default_rng(seed)
    labels = draw.integers(0, 2, count)
    texts = []
    for label in labels:
        words = list(draw.choice(OTHER, draw.integers(6, LENGTH - 3)))
        words += list(draw.choice(GOOD if label else BAD, 3))
        texts.append(" ".join(draw.permutation(words)))
    return np.array(texts), labels.astype("float32")


texts, labels = reviews(REVIEWS, seed=0)
numbered = layers.TextVectorization(max_tokens=WORDS, output_sequence_length=LENGTH)
numbered.adapt(texts)
x = numbered(texts).numpy()

with strategy.scope():
    words = keras.Input((LENGTH,), dtype="int64")
    hidden = layers.Embedding(WORDS, 16, mask_zero=True)(words)
    hidden = layers.LSTM(16, return_sequences=True)(hidden)
    hidden = layers.GlobalAveragePooling1D()(layers.Attention()([hidden, hidden]))
    model = keras.Model(words, layers.Dense(1)(hidden))
    model.compile(
        keras.optimizers.Adam(0.01),
        keras.losses.BinaryCrossentropy(from_logits=True),
        metrics=[keras.metrics.BinaryAccuracy(threshold=0.0)],
    )

# 1,000 reviews in batches of 64: the last batch has 40.
history = model.fit(x, labels, batch_size=64, epochs=3, verbose=0)

unseen, truth = reviews(200, seed=1)
loss, accuracy = model.evaluate(numbered(unseen).numpy(), truth, verbose=0)
print(f"loss {history.history['loss'][-1]:.4f}, on unseen reviews {loss:.4f}, accuracy {accuracy:.3f}")
