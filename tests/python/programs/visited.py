"""Train with pauses until a file `enough` appears.

With the argument `gate`, this process can't attach filters to its sockets.

Worker 0 writes its address to `starting` before TensorFlow listens, and to `closed` when nobody gets in.
"""

import json
import os
import sys
import time
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from connections import break_connections

import tfmuster
from tfmuster.rendezvous.task import port_guard

cluster = json.loads(os.environ["TF_CONFIG"])["cluster"]["worker"]
chief = tfmuster.current_task().is_chief


def tell(name: str) -> None:
    if chief:
        Path(f"{name}.new").write_text(cluster[0])
        os.replace(f"{name}.new", name)


def guards() -> list[port_guard.PortGuard]:
    return port_guard._guards


if "gate" in sys.argv:
    port_guard.filters_work = lambda: "the kernel refuses socket filters"  # type: ignore[assignment]
tell("starting")
strategy = tfmuster.strategy("multi_worker_mirrored")
keras.utils.set_random_seed(1)
with strategy.scope():
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(4)])
    model.compile("sgd", "mse")
x, y = np.ones((64, 8), "float32"), np.ones((64, 4), "float32")
end = time.monotonic() + 60
closed = False
while time.monotonic() < end:
    model.fit(x, y, batch_size=32, verbose=0)
    if not closed and all(guard.door.stage == "closed" for guard in guards()):
        closed = True
        tell("closed")
    # All workers stop in the same round.
    stop = strategy.reduce("sum", tf.constant(float(chief and Path("enough").exists())), axis=None)
    if stop > 0:
        break
    time.sleep(0.1)
if "break" in sys.argv:
    time.sleep(1)
    # Worker 0 has the coordination service, whose connections TensorFlow needs.
    print("broken:", break_connections(int(cluster[1].rpartition(":")[2])), flush=True)
    time.sleep(1)
    model.fit(x, y, batch_size=32, verbose=0)
print("doors:", [type(guard.door).__name__ for guard in guards()], flush=True)
print("stages:", [guard.door.stage for guard in guards()], flush=True)
print("weights:", [float(weight.sum()) for weight in model.get_weights()], flush=True)
