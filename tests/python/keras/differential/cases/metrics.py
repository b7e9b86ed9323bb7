"""Every metric of Keras, and metrics that users write; those of the same labels in one training."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import metrics, ops

from .losses import BITS, CLASS, REAL, SIGNS, WEIGHTS
from .registry import Result, add, case
from .training import integers, numbers, small_network, trained


def error_of_rows(y: Any, p: Any) -> Any:
    return ops.abs(y - p)


def mean_error(y: Any, p: Any) -> Any:
    return ops.mean(ops.abs(y - p))


def root_of_mean(y: Any, p: Any) -> Any:
    return ops.sqrt(ops.mean(ops.square(y - p)))


def with_metrics(
    name: str,
    y: Any,
    outputs: int,
    activation: str | None,
    metrics: dict[str, Callable[[], Any]],
    *,
    loss: str = "mse",
    weighted: bool = True,
) -> None:
    """Train with metrics that count all rows, and others of their kinds that count them by weight."""

    def named(metric: Any, name: str) -> Any:
        if isinstance(metric, keras.metrics.Metric):
            metric.name = name
        return metric

    def run(folder: Path) -> Result:
        of_rows = [named(make(), name) for name, make in metrics.items()]
        by_weight = [named(make(), f"weighted_{name}") for name, make in metrics.items()]
        return trained(
            small_network(outputs, activation),
            numbers(6),
            y,
            loss=loss,
            compiling={"metrics": of_rows, **({"weighted_metrics": by_weight} if weighted else {})},
            sample_weight=WEIGHTS,
            validation_data=(numbers(6, seed=5), y, WEIGHTS[::-1].copy()),
        )

    add(f"metrics_of_{name}", run)


with_metrics(
    "bits",
    BITS,
    1,
    "sigmoid",
    {
        "accuracy": metrics.Accuracy,
        "auc_pr": lambda: metrics.AUC(curve="PR", num_thresholds=50),
        "auc_roc": metrics.AUC,
        "binary_accuracy": metrics.BinaryAccuracy,
        "binary_crossentropy": metrics.BinaryCrossentropy,
        "binary_io_u": lambda: metrics.BinaryIoU(threshold=0.5),
        "false_negatives": metrics.FalseNegatives,
        "false_positives": metrics.FalsePositives,
        "precision": metrics.Precision,
        "precision_at_recall": lambda: metrics.PrecisionAtRecall(0.5),
        "recall": metrics.Recall,
        "recall_at_precision": lambda: metrics.RecallAtPrecision(0.3),
        "sensitivity_at_specificity": lambda: metrics.SensitivityAtSpecificity(0.5),
        "specificity_at_sensitivity": lambda: metrics.SpecificityAtSensitivity(0.5),
        "true_negatives": metrics.TrueNegatives,
        "true_positives": metrics.TruePositives,
    },
)

with_metrics(
    "labels",
    CLASS,
    3,
    "sigmoid",
    {
        "auc_multi_label": lambda: metrics.AUC(multi_label=True, num_labels=3),
    },
)

with_metrics(
    "classes",
    CLASS,
    3,
    "softmax",
    {
        "categorical_accuracy": metrics.CategoricalAccuracy,
        "categorical_crossentropy": metrics.CategoricalCrossentropy,
        "f1_score": lambda: metrics.F1Score(average="macro"),
        "fbeta_score": lambda: metrics.FBetaScore(beta=2.0, average="micro"),
        "kl_divergence": metrics.KLDivergence,
        "one_hot_io_u": lambda: metrics.OneHotIoU(3, [0, 2]),
        "one_hot_mean_io_u": lambda: metrics.OneHotMeanIoU(3),
        "top_k": lambda: metrics.TopKCategoricalAccuracy(2),
    },
)

with_metrics(
    "vectors",
    CLASS,
    3,
    None,
    {
        "categorical_hinge": metrics.CategoricalHinge,
        "concordance_correlation": lambda: metrics.ConcordanceCorrelation(axis=-1),
        "cosine_similarity": metrics.CosineSimilarity,
        "pearson_correlation": lambda: metrics.PearsonCorrelation(axis=-1),
    },
)

with_metrics(
    "signs",
    SIGNS,
    1,
    "tanh",
    {
        "hinge": metrics.Hinge,
        "squared_hinge": metrics.SquaredHinge,
    },
)

with_metrics(
    "numbers",
    REAL,
    1,
    None,
    {
        "log_cosh_error": metrics.LogCoshError,
        "mean_absolute_error": metrics.MeanAbsoluteError,
        "mean_squared_error": metrics.MeanSquaredError,
        "r2_score": metrics.R2Score,
        "root_mean_squared_error": metrics.RootMeanSquaredError,
    },
)

with_metrics(
    "numbers_above_one",
    REAL + 1,
    1,
    None,
    {
        "mean_absolute_percentage_error": metrics.MeanAbsolutePercentageError,
    },
)

with_metrics(
    "positive_numbers",
    REAL,
    1,
    "softplus",
    {
        "mean_squared_logarithmic_error": metrics.MeanSquaredLogarithmicError,
        "poisson": metrics.Poisson,
    },
)

with_metrics(
    "class_numbers",
    integers(3),
    3,
    "softmax",
    {
        "io_u": lambda: metrics.IoU(3, [0, 2], sparse_y_pred=False),
        "mean_io_u": lambda: metrics.MeanIoU(3, sparse_y_pred=False),
        "sparse_categorical_accuracy": metrics.SparseCategoricalAccuracy,
        "sparse_categorical_crossentropy": metrics.SparseCategoricalCrossentropy,
        "sparse_top_k": lambda: metrics.SparseTopKCategoricalAccuracy(2),
    },
    loss="sparse_categorical_crossentropy",
)


class SumOfErrors(keras.metrics.Metric):
    """A sum over rows, as users count something of their own."""

    def __init__(self, name: str = "sum") -> None:
        super().__init__(name=name)
        self.total = self.add_weight(name="total", initializer="zeros")

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        self.total.assign_add(ops.sum(ops.abs(y_true - y_pred)))

    def result(self) -> Any:
        return self.total


class LargestError(keras.metrics.Metric):
    """A metric whose state is no sum."""

    def __init__(self, name: str = "maximum") -> None:
        super().__init__(name=name)
        self.largest = self.add_weight(name="largest", initializer="zeros")

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        self.largest.assign(ops.maximum(self.largest, ops.max(ops.abs(y_true - y_pred))))

    def result(self) -> Any:
        return self.largest


with_metrics("users", REAL, 1, None, {"sum": SumOfErrors, "maximum": LargestError})


# Without weights: Keras refuses them for a number of the whole batch.
with_metrics(
    "functions",
    REAL,
    1,
    None,
    {
        "function_of_rows": lambda: error_of_rows,
        "function_with_one_mean": lambda: mean_error,
        "function_with_one_root": lambda: root_of_mean,
    },
    weighted=False,
)


@case()
def users_metric_of_labels_of_each_whole_type(folder: Path) -> Result:
    """Labels as files have them: uint8 in keras.datasets, bool of a comparison."""
    types = ("bool", "int8", "uint8", "int16", "uint16", "uint32", "uint64")

    class MeanError(keras.metrics.Metric):
        def __init__(self) -> None:
            super().__init__(name="error")
            self.total, self.rows = (self.add_weight(name=name, initializer="zeros") for name in ("t", "n"))

        def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
            self.total.assign_add(ops.sum(ops.abs(ops.cast(y_true, "float32") - y_pred)))
            self.rows.assign_add(ops.cast(ops.shape(y_true)[0], "float32"))

        def result(self) -> Any:
            return self.total / self.rows

    x = keras.Input((6,))
    labels = {name: integers(2 if name == "bool" else 100, 1).astype(name) for name in types}
    return trained(
        keras.Model(x, {name: keras.layers.Dense(1, name=name)(x) for name in types}),
        numbers(6),
        labels,
        optimizer=keras.optimizers.SGD(1e-5),
        compiling={"metrics": {name: [MeanError()] for name in types}},
    )


@case()
def metric_per_output(folder: Path) -> Result:
    x = keras.Input((6,))
    outputs = {name: keras.layers.Dense(1, name=name)(x) for name in ("first", "second")}
    return trained(
        keras.Model(x, outputs),
        numbers(6),
        {"first": REAL, "second": 2 * REAL},
        loss={"first": "mse", "second": "mae"},
        compiling={"metrics": {"first": ["mae", "mse"], "second": ["mse"]}},
    )


@case()
def metric_added_by_a_layer(folder: Path) -> Result:
    class Watched(keras.layers.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.seen = keras.metrics.Mean(name="seen")

        def call(self, x: Any) -> Any:
            self.seen.update_state(x)
            return x

    model = keras.Sequential([keras.Input((6,)), Watched(), keras.layers.Dense(1)])
    return trained(model, numbers(6), REAL)


@case()
def metrics_of_python_numbers(folder: Path) -> Result:
    def always_half(y: Any, p: Any) -> float:
        return 0.5

    return trained(small_network(), numbers(6), REAL, compiling={"metrics": [always_half]})


@case()
def metrics_seen_by_a_callback(folder: Path) -> Result:
    """The logs of each batch, as progress bars and callbacks show them."""

    class Logs(keras.callbacks.Callback):
        def __init__(self) -> None:
            super().__init__()
            self.seen: list[list[float]] = []

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            self.seen.append([float(logs[name]) for name in sorted(logs)])

    logs = Logs()
    result = trained(
        small_network(1, "sigmoid"),
        numbers(6),
        BITS,
        loss="binary_crossentropy",
        compiling={"metrics": [metrics.AUC(name="auc"), "mae"]},
        callbacks=[logs],
    )
    return Result(result.model, result.history, {"batches": np.array(logs.seen)})
