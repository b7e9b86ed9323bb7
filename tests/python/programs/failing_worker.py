"""Worker 1 raises; worker 0 waits in a collective for it."""

import tensorflow as tf

import tfmuster

strategy = tfmuster.strategy("multi_worker_mirrored")
if strategy.cluster_resolver.task_id == 1:
    raise ValueError("planted")
for _ in range(100_000):
    strategy.reduce("SUM", tf.constant(1.0), axis=None)
