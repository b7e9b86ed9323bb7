"""Train on JAX under DataParallel and ModelParallel, in one process or several, and say what came out."""

import json
import sys
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

import tfmuster

where = Path(sys.argv[1])
several = "alone" not in sys.argv
if several:
    keras.distribution.initialize()
import jax

index = jax.process_index()
said = {"processes": jax.process_count(), "refused": {}}
rows = np.random.default_rng(1).normal(size=(72, 8)).astype("float32")
labels = rows @ np.linspace(-1, 1, 8, dtype="float32")[:, None]


def data(batch=16):
    """Five batches of 16 rows, the last of which is partial."""
    return tf.data.Dataset.from_tensor_slices((rows, labels)).batch(batch)


def made():
    keras.utils.set_random_seed(3)
    layers = [
        keras.Input((8,)),
        keras.layers.Dense(16, "tanh", name="wide"),
        keras.layers.Dense(1, name="last"),
    ]
    model = keras.Sequential(layers)
    model.compile("sgd", "mse", metrics=["mae"])
    return model


def trained(name, *callbacks):
    model = made()
    history = model.fit(data(), epochs=2, verbose=0, callbacks=callbacks)
    said[name] = {
        "history": history.history,
        "evaluate": model.evaluate(data(), verbose=0),
        "predict": model.predict(data(), verbose=0).tolist(),
        "weights": [weight.tolist() for weight in model.get_weights()],
    }
    model.save(where / f"{name}.keras")
    return model


def refused(name, call):
    try:
        call()
    except tfmuster.TfmusterError as error:
        said["refused"][name] = [error.fields["reason"], error.message, error.found, error.fix]


def fit_by_rows_of_seven():
    made().fit(data(7), verbose=0)


def fit(data_set=None, model=None, **options):
    return (model or made()).fit(data() if data_set is None else data_set, verbose=0, **options)


def of_unknown_length(batches):
    return data().take(batches).filter(lambda x, y: True)


def in_own_order():
    """Rows of which a generator decides the order, in each process another one."""

    def batches():
        for chosen in np.random.default_rng(index).permutation(72).reshape(9, 8):
            yield rows[chosen], labels[chosen]

    return tf.data.Dataset.from_generator(
        batches, output_signature=(tf.TensorSpec((8, 8)), tf.TensorSpec((8, 1)))
    )


def wide(columns):
    return keras.Sequential([keras.Input((8,)), keras.layers.Dense(columns, name="wide")])


class Stops(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        self.model.stop_training = index == 1


def tell_differences():
    """Differ from the other process, which both must learn before they wait for each other."""
    shared, permuted = made(), np.random.default_rng(index).permutation(72)
    sgd = keras.optimizers.SGD(clipnorm=1.0 + index)
    with_sgd = keras.Sequential([keras.Input((8,)), keras.layers.Dense(1)])
    with_sgd.compile(sgd, "mse")
    apart = keras.distribution.DataParallel(auto_shard_dataset=False)
    refused("steps", lambda: fit(data().take(5 - index)))
    refused("order", lambda: fit(tf.data.Dataset.from_tensor_slices((rows[permuted], labels)).batch(16)))
    refused("order in an epoch", lambda: fit(in_own_order()))
    refused("order in evaluate", lambda: shared.evaluate(in_own_order(), verbose=0))
    refused("shard", lambda: fit(data(4).shard(2, index)))
    refused("batch size", lambda: fit(data(16 + 8 * index).take(3)))
    refused("epochs", lambda: fit(epochs=1 + index))
    refused("optimizer", lambda: fit(model=with_sgd))
    refused("validation", lambda: fit(validation_data=data() if index else None))
    refused("evaluate", lambda: shared.evaluate(data().take(5 - index), verbose=0))
    refused("predict", lambda: shared.predict(data().take(5 - index), verbose=0))
    refused("call", lambda: shared.evaluate(data(), verbose=0) if index else fit(model=shared))
    refused("weight", lambda: wide(4 + index))
    keras.distribution.set_distribution(apart)
    refused("own steps", lambda: fit(data(8).take(5 - index)))
    keras.distribution.set_distribution(keras.distribution.DataParallel())
    said["unknown length"] = len(fit(of_unknown_length(4), epochs=2).epoch)
    said["stopped"] = len(fit(epochs=3, callbacks=[Stops()]).epoch)


if several:
    refused("no distribution", lambda: made().fit(data(), verbose=0))
    own = [f"cpu:{device.id}" for device in jax.local_devices()]
    keras.distribution.set_distribution(keras.distribution.DataParallel(devices=own))
    refused("own devices", lambda: made().fit(data(), verbose=0))

keras.distribution.set_distribution(keras.distribution.DataParallel())
backup = keras.callbacks.BackupAndRestore(where / "backup", delete_checkpoint=False)
model = trained("data", keras.callbacks.CSVLogger(where / "log.csv"), backup)
resumed = made()
said["resumed"] = len(resumed.fit(data(), epochs=3, verbose=0, callbacks=[backup]).epoch)
said["batches"] = made().fit(tfmuster.batches(rows, labels, 24, seed=5), verbose=0).history
if several:
    refused("rows", fit_by_rows_of_seven)
    tell_differences()
    refused("strategy", lambda: tfmuster.strategy("multi_worker_mirrored"))
    refused("checkpoint_callback", lambda: tfmuster.checkpoint_callback(where))
    refused("own_rows", lambda: tfmuster.own_rows(data()))
    refused("distributed_step", lambda: tfmuster.distributed_step(None, abs))
    refused("evaluate_checkpoints", lambda: tfmuster.evaluate_checkpoints(model, data()))
    refused("ps_fit", lambda: tfmuster.ps_fit(model, data))
    refused("train_mnist", lambda: tfmuster.train_mnist("softmax"))

devices = keras.distribution.list_devices()
mesh = keras.distribution.DeviceMesh((1, len(devices)), ("batch", "model"), devices)
layout = keras.distribution.LayoutMap(mesh)
layout[".*wide/kernel"] = (None, "model")
layout[".*wide/bias"] = ("model",)
layout[".*last/kernel"] = ("model", None)
keras.distribution.set_distribution(
    keras.distribution.ModelParallel(layout_map=layout, batch_dim_name="batch")
)
model = trained("model")
kernel = model.get_layer("wide").kernel.value
(shard,) = kernel.addressable_shards
said["model"] |= {"whole": kernel.shape, "shard": shard.data.shape}
said["model"]["kernel"] = np.asarray(shard.data).tolist()
(where / f"said-{index}.json").write_text(json.dumps(said))
