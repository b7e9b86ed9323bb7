"""Train with parameter servers: ``ps_fit`` replaces ``model.fit``, which Keras 3 does not support here.

One task coordinates: the chief, or worker 0 if the cluster has no chief. The ``ps`` and ``worker`` tasks run
``tf.distribute.Server`` until the job ends (:mod:`.serving`). The coordinator places the weights and the
optimizer's state on the parameter servers, and splits large ones across all of them (:mod:`.weights`). It
runs one loop per worker with ClusterCoordinator (:mod:`.worker_loops`). The loop computes gradients from the
worker's own data (:mod:`.data`) with functions that the coordinator has traced (:mod:`.steps`). The model in
the coordinator's session stays an ordinary Keras model: it gets the weights after each epoch, so callbacks,
validation, and saving use Keras's own code.
"""

from __future__ import annotations

from .fit import ps_fit

__all__ = ["ps_fit"]
