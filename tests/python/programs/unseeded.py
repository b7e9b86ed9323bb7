"""Print the order in which an unseeded, shuffled data set comes."""

import tensorflow as tf

import tfmuster

tfmuster.strategy("multi_worker_mirrored")
print([int(x) for x in tf.data.Dataset.range(1000).shuffle(1000).take(20)])
