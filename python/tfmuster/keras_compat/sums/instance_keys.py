"""What TensorFlow's collectives can't do: sizes that change in a loop, no values, and some types.

Each step of a loop in a graph has its own collectives, where their sizes can change.

TensorFlow draws the key of a collective instance once for each call of a function, so all steps of a loop in
it share an instance, and TensorFlow fixes the shapes of an instance when it first runs. This holds for the
sums of dense gradients. Sparse gradients, those of embeddings, have as many rows as a batch has values: the
smaller last batch of an epoch, or batches that are padded to their longest row, end with "Shape mismatch in
the collective instance" (TensorFlow 2.21).

A gather of tensors without any value ends the process by SIGSEGV, so they are sent with one more value.

TensorFlow's broadcasts of first values take six types. Variables of others, such as those of a layer with
``dtype="bfloat16"`` or of a quantized model, travel as the bytes that they are made of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import seams

if TYPE_CHECKING:
    import tensorflow as tf

_STEP = "_tfmuster_step_of_loop"


def mark_loop(step: tf.Tensor, most_steps: int) -> None:
    """Tell the collectives in a loop's body, which is being traced, the loop's step (int32, from 0)."""
    import tensorflow as tf

    setattr(tf.compat.v1.get_default_graph(), _STEP, (step, most_steps))


def patch_gathers() -> None:
    """Make the gathers of TensorFlow's ``CollectiveReplicaLauncher`` use a new key in each step of a loop."""
    import tensorflow as tf

    stock_gather = seams.ALL_GATHER.get()

    @seams.ALL_GATHER.wrap
    def all_gather(self: Any, input_tensor: tf.Tensor, options: object) -> Any:
        input_tensor = tf.convert_to_tensor(input_tensor)
        known = input_tensor.shape.num_elements()
        if known or not input_tensor.shape.rank:
            return gather(self, input_tensor, options)
        # Maybe it is empty, on all workers: here they have the same shape.
        shape, workers = tf.shape(input_tensor), seams.GROUP_SIZE.of(self)
        longer = tf.concat([tf.reshape(input_tensor, [-1]), tf.zeros([1], input_tensor.dtype)], axis=0)
        rows = tf.reshape(gather(self, longer, options), [workers, -1])[:, :-1]
        gathered = tf.reshape(rows, tf.concat([shape[:1] * workers, shape[1:]], axis=0))
        return tf.ensure_shape(gathered, [None, *input_tensor.shape[1:]])

    def gather(self: Any, input_tensor: tf.Tensor, options: object) -> Any:
        # A length that tracing knows is the same in every step.
        loop = None if input_tensor.shape.is_fully_defined() else _loop_around()
        if loop is None or not seams.USE_UNIQUE_KEY.of(self)():
            return stock_gather(self, input_tensor, options)
        step, most_steps = loop

        def reserve() -> Any:
            """Return the first of `most_steps` keys, when the function is called."""
            keys, group = seams.LAUNCHER_KEYS.of(self), seams.GROUP_KEY.of(self)
            device = seams.LAUNCHER_DEVICE.of(self)
            first = keys.get_instance_key(group, device)
            with seams.KEYS_LOCK.of(keys):
                seams.KEYS_TABLE.of(keys)[group][device] += most_steps - 1
            with tf.device("CPU:0"):
                return tf.convert_to_tensor(first, tf.int32)

        def key() -> Any:
            function = tf.compat.v1.get_default_graph()
            while getattr(function, "is_control_flow_graph", False):
                function = function.outer_graph
            with function.as_default():
                first = function.capture_call_time_value(reserve, tf.TensorSpec([], tf.int32))
            return first + step

        seams.NEXT_KEY.set(self, key)
        try:
            return stock_gather(self, input_tensor, options)
        finally:
            seams.NEXT_KEY.unset(self)


def _loop_around() -> tuple[Any, int] | None:
    """Return the step and the limit of the marked loop whose body is being traced, if there is one."""
    import tensorflow as tf

    graph = tf.compat.v1.get_default_graph()
    while graph is not None:
        if (loop := getattr(graph, _STEP, None)) is not None:
            return loop  # type: ignore[no-any-return]
        graph = getattr(graph, "outer_graph", None)
    return None


_TYPES = ("bool", "float16", "float32", "float64", "int32", "int64")


def patch_broadcasts() -> None:
    """Replace ``broadcast_send`` and ``broadcast_recv`` of TensorFlow's module."""
    import tensorflow as tf

    stock_send, stock_receive = seams.BROADCAST_SEND.get(), seams.BROADCAST_RECEIVE.get()

    @seams.BROADCAST_SEND.wrap
    def send(value: tf.Tensor, shape: tf.TensorShape, type: tf.DType, *args: object, **kwargs: object) -> Any:
        if not _as_bytes(type):
            return stock_send(value, shape, type, *args, **kwargs)
        numbers = tf.cast(tf.bitcast(value, tf.uint8), tf.int32)
        return stock_send(numbers, numbers.shape, tf.int32, *args, **kwargs)

    @seams.BROADCAST_RECEIVE.wrap
    def receive(shape: tf.TensorShape, type: tf.DType, *args: object, **kwargs: object) -> Any:
        if not _as_bytes(type):
            return stock_receive(shape, type, *args, **kwargs)
        # bitcast() adds an axis only for types of several bytes.
        sent = tf.TensorShape(shape) + ([type.size] if type.size > 1 else [])
        numbers = stock_receive(sent, tf.int32, *args, **kwargs)
        return tf.bitcast(tf.cast(numbers, tf.uint8), type)


def _as_bytes(type: tf.DType) -> bool:
    number = type.is_integer or type.is_floating or type.is_complex
    return number and type.name not in _TYPES
