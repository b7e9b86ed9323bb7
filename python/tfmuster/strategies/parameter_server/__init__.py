"""Training with parameter servers, which Keras 3 itself refuses: ``ps_fit`` in the place of ``model.fit``.

One task coordinates: the chief, or worker 0 where the cluster has none. The ``ps`` and ``worker`` tasks run
``tf.distribute.Server`` until the job is over (:mod:`.serving`). The coordinator keeps the weights and the
optimizer's state on the parameter servers, large ones cut over all of them (:mod:`.weights`); it has
ClusterCoordinator run one loop on each worker (:mod:`.worker_loops`), which computes gradients from its own
data (:mod:`.data`) by functions that the coordinator has traced (:mod:`.steps`). The model in the
coordinator's session stays an ordinary Keras model: after each epoch it gets the weights, so callbacks,
validation, saving and all that comes after are Keras's own.
"""

from __future__ import annotations

from .fit import ps_fit

__all__ = ["ps_fit"]
