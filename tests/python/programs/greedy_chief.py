"""After the rendezvous the chief keeps the interpreter lock for 5 s, as TensorFlow does when it waits."""

import ctypes
import time

from tfmuster.cluster.tf_config import current_task
from tfmuster.rendezvous.task.meet import muster

task = current_task()
muster(task, versions={})
print(time.time(), flush=True)
if task.is_chief:
    ctypes.PyDLL(None).usleep(5_000_000)
