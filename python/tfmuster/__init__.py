"""TensorFlow on several machines, from R and from Python, by one command.

``import tfmuster`` imports neither TensorFlow nor anything else that is slow: each public name is loaded
from its module when it is first used (PEP 562).
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_MODULE_OF = {
    "Cluster": "cluster",
    "Task": "cluster",
    "check_cluster": "check",
    "tf_config_json": "tf_config",
    "parse_tf_config": "tf_config",
    "use_tf_config": "tf_config",
    "current_task": "tf_config",
    "tf_config_from_barrier": "resolve",
    "strategy": "strategies",
    "strategy_table": "strategy_table",
    "distributed_step": "custom_loop",
    "ps_fit": "parameter_server",
    "mnist": "datasets",
    "synthetic": "datasets",
    "mnist_model": "models",
    "train_mnist": "training",
    "TrainingResult": "training",
    "save_model": "artifacts",
    "model_to_bytes": "artifacts",
    "model_from_bytes": "artifacts",
    "save_model_file": "artifacts",
    "checkpoint_callback": "checkpoints",
    "evaluate_checkpoints": "evaluating",
    "launch": "launch",
    "TfmusterError": "errors",
}

__all__ = ["__version__", *_MODULE_OF]  # noqa: PLE0604 - they are strings


def __getattr__(name: str) -> Any:
    try:
        module = _MODULE_OF[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
    value = getattr(importlib.import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
