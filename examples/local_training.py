"""Train on this machine alone, to see that everything is in place: half a minute, to 97 % on MNIST.

python examples/local_training.py [DATASET]

DATASET: nothing for MNIST, "synthetic" for drawn digits, or a path. With ``recipe="document"``, the model has
the 3 epochs of 5 steps of the example that it is from.
"""

import sys

import tfmuster

result = tfmuster.train_mnist("cnn", dataset=sys.argv[1] if len(sys.argv) > 1 else None)
print(result)
