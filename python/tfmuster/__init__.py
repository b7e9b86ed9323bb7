"""TensorFlow on several machines, from R and from Python, by one command.

``import tfmuster`` loads neither TensorFlow nor anything else that is slow. Each public name is loaded from
its module when it is first used (PEP 562).
"""

from __future__ import annotations

import importlib
import os
from typing import Any

__version__ = "0.1.0"

#: Public names that are loaded when they are first used, and the module of this package that defines each.
MODULE_OF = {
    "Cluster": "cluster.spec",
    "Task": "cluster.spec",
    "check_cluster": "cluster.check",
    "tf_config_json": "cluster.tf_config",
    "parse_tf_config": "cluster.tf_config",
    "use_tf_config": "cluster.tf_config",
    "current_task": "cluster.tf_config",
    "tf_config_from_barrier": "cluster.resolvers",
    "strategy": "strategies.by_name",
    "strategy_table": "strategies.by_name",
    "distributed_step": "training.custom_loop",
    "own_rows": "keras_compat.data.worker_data",
    "ps_fit": "strategies.parameter_server",
    "mnist": "digits.datasets",
    "synthetic": "digits.datasets",
    "mnist_model": "digits.models",
    "train_mnist": "digits.train",
    "TrainingResult": "digits.reporting",
    "save_model": "models.saving",
    "model_to_bytes": "models.saving",
    "model_from_bytes": "models.saving",
    "batches": "training.batches",
    "file_batches": "training.file_batches",
    "tfrecord_rows": "training.readers.tfrecord_files",
    "csv_rows": "training.readers.tables",
    "parquet_rows": "training.readers.tables",
    "image_rows": "training.readers.image_folders",
    "checkpoint_callback": "training.checkpoints",
    "tensorboard_callback": "tracking.show.tensorboard",
    "evaluate_checkpoints": "training.evaluating",
    "scaled_learning_rate": "training.learning_rates",
    "broadcast": "training.values",
    "gather": "training.values",
    "all_rows": "training.values",
    "chief_first": "training.values",
    "launch": "launcher",
    "Local": "options.places",
    "Ssh": "options.places",
    "Slurm": "options.places",
    "Sge": "options.places",
    "Pbs": "options.places",
    "Lsf": "options.places",
    "Mpi": "options.places",
    "Spark": "options.places",
    "Control": "options.table",
    "workers": "launcher.warm",
    "Run": "tracking.run",
    "runs": "tracking.show.listing",
    "find_run": "tracking.show.listing",
    "compare_runs": "tracking.show.comparison",
    "write_report": "tracking.show.report",
    "doctor": "diagnostics.doctor",
    "selftest": "diagnostics.selftest",
    "TfmusterError": "errors",
    "ClusterError": "errors",
    "StrategyError": "errors",
    "DataError": "errors",
    "ModelError": "errors",
    "CheckpointError": "errors",
    "DependencyError": "errors",
    "LaunchError": "errors",
    "RendezvousError": "errors",
    "WorkerError": "errors",
    "TfmusterWarning": "errors",
    # Classes of returned objects. They say that they belong to this package, as `Run` does, so that pickle
    # and R's S3 classes keep their names when modules move.
    "Digits": "digits.datasets",
    "Report": "cluster.check",
}
_ONLY_RETURNED = ("Digits", "Report")

__all__ = ["__version__", *(name for name in MODULE_OF if name not in _ONLY_RETURNED)]  # noqa: PLE0604 - they are strings


def __getattr__(name: str) -> Any:
    try:
        module = MODULE_OF[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
    _watch_worker(name)
    value = getattr(importlib.import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value


def _watch_worker(name: str) -> None:
    """Let a worker that a user has started manually not train a model of its own, either."""
    if name == "use_tf_config" or os.environ.get("TF_CONFIG"):
        importlib.import_module(f"{__name__}.worker.import_hook").guard_training()


def __dir__() -> list[str]:
    return sorted(__all__)
