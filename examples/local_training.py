"""Train on this machine alone, to see that everything is in place: batches of 64, 3 epochs of 5 steps.

python examples/local_training.py [DATASET]

DATASET: nothing for MNIST, "synthetic" for drawn digits, or a path.
"""

import sys

import tfmuster

result = tfmuster.train_mnist("cnn", dataset=sys.argv[1] if len(sys.argv) > 1 else None)
print(result)
