"""Run the scenarios of a program and write what each leaves, for support/scenarios.py to compare.

A scenario returns a dict: its ``model``, its ``history``, and arrays.
"""

import keras
import numpy as np

scenarios = {}


def scenario(function):
    """Register a scenario by the name of its function."""
    scenarios[function.__name__] = function
    return function


def run_scenarios(names, strategy, folder, worker):
    """Write FOLDER/<scenario>-<worker>.npz for each name: weights, history and arrays."""
    for name in names:
        keras.utils.set_random_seed(7)
        with strategy.scope():
            result = scenarios[name]()
        model = result.pop("model")
        history = {f"history_{k}": np.asarray(v, dtype="float64") for k, v in result.pop("history").items()}
        weights = {f"weight_{i}": w for i, w in enumerate(model.get_weights())}
        np.savez(folder / f"{name}-{worker}.npz", **weights, **history, **result)
        print("done:", name, flush=True)
