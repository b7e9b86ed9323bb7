"""What chaos.py starts: a worker that trains and does to itself what it is told, and a stranger.

Usage: chaos_worker.py train FOLDER [copied] | stranger HOST PORT; with `copied`, the checkpoints are in the
run directory, and else in FOLDER, and the training is in float64.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

#: Below the folder of a job; on a small disk of its own, where such may be made.
CHECKPOINTS = "checkpoints"
EPOCHS, STEPS, EVERY = 6, 100, 20
#: A user that no process of this machine has.
STRANGER = 64123

# Frames of HTTP/2 (RFC 9113): settings without any value, and their acknowledgement.
_SETTINGS = bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
_ACKNOWLEDGED = bytes([0, 0, 0, 4, 1, 0, 0, 0, 0])
#: How long the stranger tries, in seconds.
_TRIES = 2.0

#: Files that a worker holds, so that no more can be opened.
_held: list[int] = []


def train(folder: Path, checkpoints: Path | None) -> None:
    """One worker: training that does to itself what a file in the run directory asks for."""
    import tfmuster

    strategy = tfmuster.strategy("multi_worker_mirrored")
    import keras
    import numpy as np

    if checkpoints is None:
        keras.config.set_floatx("float64")
    index = tfmuster.current_task().index
    run_dir, attempt = Path(os.environ["TFMUSTER_RUN_DIR"]), os.environ["TFMUSTER_RESTART"]
    order = run_dir / f"order-{attempt}-{index}"

    class Obey(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            (run_dir / f"training-{attempt}").touch()
            if not _held and order.exists():
                kind = order.read_text()
                order.write_text(repr(time.monotonic()))
                disturb(kind, folder)

    result = tfmuster.train_mnist(
        "mlp",
        dataset="synthetic",
        strategy=strategy,
        batch_size=16,
        epochs=EPOCHS,
        steps_per_epoch=STEPS,
        seed=7,
        callbacks=[Obey(), tfmuster.checkpoint_callback(checkpoints, every=EVERY)],
    )
    np.savez(folder / f"final-{index}.npz", *result.model.get_weights())


def disturb(kind: str, folder: Path) -> None:
    """Do to this worker what was ordered."""
    if kind == "os._exit":
        os._exit(5)
    if kind == "descriptors":
        with contextlib.suppress(OSError):
            while True:
                _held.append(os.open(os.devnull, os.O_RDONLY))
        return
    if kind == "title and daemon":
        import setproctitle

        setproctitle.setproctitle("renamed")
        # A daemon: its parent ends at once, it has a session of its own, and no variable of the job.
        program = f"import os, time; os.fork() and os._exit(0); os.setsid(); time.sleep(900)  # {folder}"
        subprocess.run([sys.executable, "-I", "-S", "-c", program], env={}, check=True)
    raise RuntimeError("chaos")


def visit(host: str, port: int) -> None:
    """Connect as another user, send what a client of gRPC sends first, and print whether it is answered."""
    os.setgid(STRANGER)
    os.setuid(STRANGER)
    end = time.monotonic() + _TRIES
    while time.monotonic() < end:
        with contextlib.suppress(OSError), socket.create_connection((host, port), timeout=1) as made:
            made.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _SETTINGS)
            # The server's own settings come before it has read anything, the acknowledgement afterwards.
            answer = b""
            while _ACKNOWLEDGED not in answer and (more := made.recv(1000)):
                answer += more
            if _ACKNOWLEDGED in answer:
                print("served")
                return
        time.sleep(0.05)


if __name__ == "__main__":
    if sys.argv[1] == "train":
        train(Path(sys.argv[2]), None if sys.argv[3:] else Path(sys.argv[2], CHECKPOINTS))
    else:
        visit(sys.argv[2], int(sys.argv[3]))
