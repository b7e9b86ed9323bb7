"""One model under several strategies: only the scope changes.

python examples/choosing_strategies.py STRATEGY [DATASET] [EPOCHS]

STRATEGY: one_device, central_storage, mirrored (two replicas, on a machine without GPUs two logical CPUs), or
multi_worker_mirrored (under ``tfmuster launch``).
"""

import sys

import tfmuster

name = sys.argv[1] if len(sys.argv) > 1 else "central_storage"
strategy = tfmuster.strategy(name, replicas=2 if name == "mirrored" else None)
result = tfmuster.train_mnist(
    "mlp",
    strategy=strategy,
    dataset=sys.argv[2] if len(sys.argv) > 2 else None,
    epochs=int(sys.argv[3]) if len(sys.argv) > 3 else None,
)
print(f"{name} with {result.replicas} replica(s): test accuracy {result.test_accuracy:.4f}")
