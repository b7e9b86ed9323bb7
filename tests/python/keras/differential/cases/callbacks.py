"""Every callback of Keras, and two of them in a row where state could stay behind."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
from keras import callbacks

from .registry import Result, add, case
from .training import BATCH, numbers, small_network, trained

X, Y = numbers(6), numbers(1, seed=2)
VALIDATION = (numbers(6, seed=5, rows=23), numbers(1, seed=6, rows=23))


def with_callback(name: str, make: Callable[[Path], Any], **fit: Any) -> None:
    def run(folder: Path) -> Result:
        folder.mkdir(exist_ok=True)
        fit.setdefault("epochs", 4)
        return trained(small_network(), X, Y, callbacks=[make(folder)], validation_data=VALIDATION, **fit)

    add(f"callback_{name}", run)


with_callback("csv_logger", lambda folder: callbacks.CSVLogger(folder / "log.csv"))
with_callback("early_stopping", lambda _: callbacks.EarlyStopping(min_delta=0.1, patience=1))
with_callback(
    "early_stopping_restores",
    lambda _: callbacks.EarlyStopping("loss", mode="max", patience=1, restore_best_weights=True),
)
with_callback("lambda", lambda _: callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: None))
with_callback("schedule", lambda _: callbacks.LearningRateScheduler(lambda epoch, rate: rate * 0.5))
with_callback("checkpoint", lambda folder: callbacks.ModelCheckpoint(folder / "{epoch}.keras"))
with_callback(
    "checkpoint_of_best_weights",
    lambda folder: callbacks.ModelCheckpoint(
        folder / "best.weights.h5", save_best_only=True, save_weights_only=True
    ),
)
with_callback(
    "checkpoint_by_batches", lambda folder: callbacks.ModelCheckpoint(folder / "m.keras", save_freq=2)
)
with_callback("reduce_on_plateau", lambda _: callbacks.ReduceLROnPlateau(min_delta=1.0, patience=1))
with_callback("tensorboard", lambda folder: callbacks.TensorBoard(folder / "logs", write_graph=False))
with_callback("terminate_on_nan", lambda _: callbacks.TerminateOnNaN())


@case()
def callback_stops_on_the_chief_alone(folder: Path) -> Result:
    """``stop_training`` set on one worker ends all of them after the same step."""
    import tensorflow as tf

    class Stop(callbacks.Callback):
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            resolver = tf.distribute.get_strategy().cluster_resolver
            if epoch == 1 and (resolver is None or resolver.task_id == 0):
                self.model.stop_training = True

    return trained(small_network(), X, Y, epochs=5, callbacks=[Stop()])


@case()
def callback_stops_in_a_batch_on_one_worker(folder: Path) -> Result:
    """The others stop after the same step, of the second epoch."""
    import tensorflow as tf

    class Stop(callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            resolver = tf.distribute.get_strategy().cluster_resolver
            steps = int(self.model.optimizer.iterations.numpy())
            if steps == 6 and (resolver is None or resolver.task_id == 1):
                self.model.stop_training = True

    return trained(small_network(), X, Y, epochs=5, callbacks=[Stop()])


@case()
def callback_terminates_on_nan(folder: Path) -> Result:
    """Keras's own callback sees the same loss on all workers."""
    rows = X.copy()
    rows[BATCH * 2] = float("nan")
    return trained(small_network(), rows, Y, epochs=3, callbacks=[callbacks.TerminateOnNaN()], shuffle=False)


@case()
def callback_backup_twice(folder: Path) -> Result:
    """A head first, then all of it: the second fit must not find the first one's backup."""
    folder.mkdir(exist_ok=True)
    model = small_network()
    histories = {}
    for number, layer_trains in enumerate((False, True)):
        model.layers[0].trainable = layer_trains
        backup = callbacks.BackupAndRestore(folder / f"backup-{number}")
        result = trained(model, X, Y, epochs=2 + number, callbacks=[backup])
        histories |= {f"{name}_{number}": values for name, values in result.history.items()}
    return Result(model, histories)


@case()
def callback_backup_resumes(folder: Path) -> Result:
    folder.mkdir(exist_ok=True)

    class Interrupt(callbacks.Callback):
        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            if epoch == 2:
                raise InterruptedError

    model = small_network()
    backup = callbacks.BackupAndRestore(folder / "backup")
    with contextlib.suppress(InterruptedError):
        trained(model, X, Y, epochs=4, callbacks=[backup, Interrupt()])
    model.set_weights([0 * w for w in model.get_weights()])
    history = model.fit(X, Y, batch_size=BATCH, epochs=4, verbose=0, callbacks=[backup]).history
    return Result(model, history)


@case()
def callback_changes_the_rate(folder: Path) -> Result:
    class Rate(callbacks.Callback):
        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            self.model.optimizer.learning_rate = 0.1 / (batch + 1)

    return trained(small_network(), X, Y, callbacks=[Rate()])


@case()
def callback_evaluates_and_predicts(folder: Path) -> Result:
    seen = []

    class Look(callbacks.Callback):
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            seen.append(self.model.evaluate(*VALIDATION, batch_size=5, verbose=0))
            seen.append(float(self.model.predict(VALIDATION[0], verbose=0).sum()))

    result = trained(small_network(), X, Y, callbacks=[Look()])
    return Result(result.model, result.history, {"seen": seen})


@case()
def callback_copies_the_weights(folder: Path) -> Result:
    class Average(callbacks.Callback):
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            self.model.set_weights([0.9 * w for w in self.model.get_weights()])

    return trained(small_network(), X, Y, epochs=3, callbacks=[Average()])


@case()
def callback_swaps_ema_weights(folder: Path) -> Result:
    swap = callbacks.SwapEMAWeights(swap_on_epoch=True)
    optimizer = keras.optimizers.SGD(0.05, use_ema=True, ema_momentum=0.8)
    return trained(small_network(), X, Y, optimizer=optimizer, callbacks=[swap], validation_data=VALIDATION)
