"""Run cases in one process, or as one of several workers, and write what came of each to a file.

Usage: session.py FOLDER CASE...; a case is module.name, such as data.data_sets. It writes
FOLDER/<name>-<worker>.npz, or .txt with the error that the case raised. Without TF_CONFIG this is stock Keras
in one process, and tfmuster is not imported. Several workers prove the first step of each case, and write
what they note of it to FOLDER/<name>-<worker>.notes.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import importlib
import json
import os
import sys
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
config = json.loads(os.environ.get("TF_CONFIG", "{}"))
worker = config["task"]["index"] if config else 0
folder = Path(sys.argv[1])

if config:
    import tfmuster
    from tfmuster.keras_compat.process import PROCESS, listen

    notes: list[str] = []
    listen(lambda about, text, **_: notes.append(text) if about == "proof" else None)
    scope = tfmuster.strategy("multi_worker_mirrored").scope
else:
    scope = contextlib.nullcontext

import keras  # noqa: E402
import numpy as np  # noqa: E402
from cases.registry import Case, named  # noqa: E402

#: A case takes two seconds, and with XLA on a busy machine a minute. What hangs ends the session.
CASE_SECONDS = 600

wanted = [name.split(".") for name in sys.argv[2:]]
for module in dict.fromkeys(module for module, _ in wanted):
    importlib.import_module(f"cases.{module}")
# The collector would scan TensorFlow's half a million objects again and again. tfmuster does the same.
gc.freeze()


def arrays_of(case: Case) -> dict[str, np.ndarray]:
    """Run a case; return its weights, its history and its other results by name."""
    keras.utils.set_random_seed(7)
    # What differs by design is refused otherwise.
    os.environ["TFMUSTER_VERIFY"] = "auto" if case.differs else "always"
    with scope():
        result = case.run(folder / case.name)
    weights = result.model.get_weights() if result.model else []
    # NumPy's files do not keep the type bfloat16.
    weights = [w.astype("float32") if w.dtype.name == "bfloat16" else w for w in weights]
    found = {f"weight_{i}": w for i, w in enumerate(weights)}
    found |= {f"history_{k}": np.asarray(v, "float64") for k, v in result.history.items()}
    return found | {name: np.asarray(value) for name, value in result.others.items()}


for case in (named(name) for _, name in wanted):
    faulthandler.dump_traceback_later(CASE_SECONDS, exit=True)
    try:
        np.savez(folder / f"{case.name}-{worker}.npz", **arrays_of(case))
    except Exception:
        (folder / f"{case.name}-{worker}.txt").write_text(traceback.format_exc())
    if config:
        (folder / f"{case.name}-{worker}.notes").write_text("\n".join(notes))
        notes.clear()
        PROCESS.told.clear()
    print("done:", case.name, flush=True)
    keras.backend.clear_session()
    faulthandler.cancel_dump_traceback_later()
    gc.freeze()  # what stays, so that the next collection does not go through it again
