"""Train the four models for 50 steps, and write what came of each. Usage: model_parity.py FOLDER REPLICAS.

REPLICAS is the number of workers whose global batch is trained on, also by one process. TEST_FLOATX chooses
the type of weights and computation.
"""

import json
import os
import sys
from pathlib import Path

import keras
import numpy as np

import tfmuster
from tfmuster.models import RECIPES

folder, replicas = Path(sys.argv[1]), int(sys.argv[2])
config = json.loads(os.environ.get("TF_CONFIG", "{}"))
worker = config["task"]["index"] if config else 0
strategy = tfmuster.strategy("multi_worker_mirrored" if config else "default")
keras.config.set_floatx(os.environ["TEST_FLOATX"])
per_replica = 1 if config else replicas

for name, recipe in RECIPES.items():
    result = tfmuster.train_mnist(
        name,
        dataset=os.environ.get("TFMUSTER_MNIST", "synthetic"),
        strategy=strategy,
        batch_size=recipe.batch_size * per_replica // 2,
        epochs=5,
        steps_per_epoch=10,
        dropout=False,
        verbose=0,
    )
    np.savez(
        folder / f"{name}-{worker}.npz",
        **{f"weight_{i}": w for i, w in enumerate(result.model.get_weights())},
        **{f"history_{k}": v for k, v in result.history.items()},
        history_test=[result.test_loss, result.test_accuracy],
    )
