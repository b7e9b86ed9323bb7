"""Meet the others, within so many seconds, then wait for so many."""

import sys
import time

from tfmuster.cluster.tf_config import current_task
from tfmuster.rendezvous.task.join import join_cluster

task = current_task()
assert task is not None
join_cluster(task, timeout=float(sys.argv[1]))
print("met", flush=True)
time.sleep(float(sys.argv[2]))
