"""Print the test accuracy of the cnn after five epochs with gradients of each data type."""

import json
import os

import tfmuster
from tfmuster.keras_compat.choices import GRADIENT_DTYPE

strategy = tfmuster.strategy("multi_worker_mirrored")
found = {}
for dtype in GRADIENT_DTYPE.values:
    GRADIENT_DTYPE.set(strategy, dtype)
    result = tfmuster.train_mnist(
        "cnn",
        dataset=os.environ.get("TFMUSTER_MNIST", "synthetic"),
        strategy=strategy,
        optimizer="adam",
        learning_rate=0.001,
        epochs=5,
        steps_per_epoch=0,
        verbose=0,
    )
    found[dtype] = result.test_accuracy
print(json.dumps(found))
