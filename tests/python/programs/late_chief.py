"""Start TensorFlow's server later on the chief, and tell whether it listened when the others started theirs.

With the argument `gate`, this process can't attach filters to its sockets.
"""

import json
import os
import socket
import sys
import time
from typing import Any

import tensorflow as tf

import tfmuster
from tfmuster.keras_compat.runtime import servers as collective_start
from tfmuster.rendezvous.task import port_guard

if "gate" in sys.argv:
    port_guard.filters_work = lambda: "the kernel refuses socket filters"  # type: ignore[assignment]
host, port = json.loads(os.environ["TF_CONFIG"])["cluster"]["worker"][0].split(":")
library = collective_start._library()


class Watched:
    """TensorFlow's library, with another start."""

    def __getattr__(self, name: str) -> Any:
        return getattr(library, name)

    def TFE_EnableCollectiveOps(self, *arguments: Any) -> None:
        if tfmuster.current_task().is_chief:
            time.sleep(1.5)
        else:
            with socket.socket() as caller:
                print("the chief listens:", caller.connect_ex((host, int(port))) == 0, flush=True)
        library.TFE_EnableCollectiveOps(*arguments)


collective_start._library = Watched
tf.distribute.MultiWorkerMirroredStrategy()
