"""Read a worker's environment through TensorFlow's port, as a stranger does: USER ID, FILE, SECONDS.

`ready.FILE` says that it may begin, and FILE appears with the address. The last line of
the output tells whether the worker's token was read.
"""

import os
import sys
import time
from pathlib import Path

import tensorflow as tf

uid, file, seconds = int(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3])
Path(f"ready.{file.name}").touch()
while not file.exists():
    time.sleep(0.01)
address = file.read_text()
# After the import: another user may not read this Python.
os.setgid(uid)
os.setuid(uid)
tf.compat.v1.disable_eager_execution()
got = b""
end = time.monotonic() + seconds
with tf.Graph().as_default():
    with tf.device("/job:worker/task:0/cpu:0"):
        content = tf.io.read_file("/proc/self/environ")
    while not got and time.monotonic() < end:
        config = tf.compat.v1.ConfigProto(operation_timeout_in_ms=1000)
        try:
            with tf.compat.v1.Session(f"grpc://{address}", config=config) as session:
                got = session.run(content)
        except tf.errors.OpError as error:
            print(type(error).__name__, flush=True)
            time.sleep(0.05)
print("token" if b"TFMUSTER_TOKEN=" in got else "nothing", flush=True)
os._exit(0)
