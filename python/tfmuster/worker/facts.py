"""Record what a run is remembered by: seed, batch size, model and hardware, as its workers see them.

No failure here ends a program. Its own model or data may lack or replace what is asked.
"""

from __future__ import annotations

import contextlib
import math
import sys
from typing import TYPE_CHECKING, Any

from ..keras_compat import seams
from ..keras_compat.process import keras_backend, listen, tell
from ..keras_compat.steps.batch_size import batch_size_of
from ..system.generators import job_seed, tensorflow_seed
from ..tracking.live.machines import say_machine
from ..tracking.record.lines import say_note

if TYPE_CHECKING:
    import keras

#: How many layers of a model are listed.
_MOST_LAYERS = 200


def note_training(model: keras.Model, batch_size: int | None = None) -> None:
    """Note seed, batch size and model of the ``fit`` that begins."""
    note_seed()
    with contextlib.suppress(Exception):
        if (size := batch_size or batch_size_of(model)) is not None:
            _tell("batch size", str(size), value=size)
    with contextlib.suppress(Exception):
        _note_model(model)


def note_seed() -> None:
    """Note the global seed that the program has set, by Keras or TensorFlow, if it is not the job's."""
    with contextlib.suppress(Exception):
        on_jax = keras_backend() == "jax" and "keras" in sys.modules
        seed = seams.KERAS_GLOBAL.get()("global_random_seed") if on_jax else tensorflow_seed()
        if seed is not None and seed != job_seed():
            _tell("seed", f"{seed}, set by the program", value=seed)


def _note_model(model: keras.Model) -> None:
    layers = model.layers
    lines = list(map(_layer_line, layers[:_MOST_LAYERS]))
    if len(layers) > _MOST_LAYERS:
        lines.append(f"and {len(layers) - _MOST_LAYERS} more layers")
    weights = model.count_params()
    trained = sum(math.prod(weight.shape) for weight in model.trainable_weights)
    text = f"{model.name}: {len(layers)} layers, {weights:,} parameters, {trained:,} of them trainable"
    _tell("model summary", text, value="\n".join(lines), parameters=weights)


def _layer_line(layer: keras.layers.Layer) -> str:
    """Describe a layer. Keras's own summary would run the code of layers, on the chief alone."""
    output: Any = getattr(layer, "output", None)
    shape = str(tuple(output.shape)) if hasattr(output, "shape") else ""
    count = f"{layer.count_params():,}" if layer.built else "not built"
    return f"{layer.name:<24} {type(layer).__name__:<22} {shape:<22} {count:>12}"


def note_machine() -> None:
    """Record this worker's hardware, after TensorFlow or JAX has started."""
    with contextlib.suppress(Exception):
        say_machine(_gpus())


def _gpus() -> list[str]:
    """Return the models of the GPUs that this process uses."""
    if keras_backend() == "jax":
        import jax

        return [device.device_kind for device in jax.local_devices() if device.platform == "gpu"]
    import tensorflow as tf

    details = map(tf.config.experimental.get_device_details, tf.config.list_physical_devices("GPU"))
    return [str(known.get("device_name", "GPU")) for known in details]


def _tell(about: str, text: str, **fields: object) -> None:
    # In a program without Keras, nobody listens yet.
    listen(say_note)
    tell(about, text, **fields)
