"""Create a distribution strategy by name, so that Keras 3 works with it.

TensorFlow accepts many settings that later make it hang. This module raises a
:class:`~tfmuster.errors.StrategyError` for them before TensorFlow binds a port or waits for other workers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..errors import StrategyError
from ..keras_compat.process import require_tensorflow_backend
from ..system.tensorflow_import import import_tensorflow
from ..words import Argument, Code, Value, Words, choice
from .devices import checked, local_devices
from .multi_worker import multi_worker_mirrored, task_in_force

STRATEGIES = (
    "default",
    "one_device",
    "mirrored",
    "central_storage",
    "multi_worker_mirrored",
    "parameter_server",
    "tpu",
)


def check_name(name: str) -> None:
    """Raise StrategyError unless ``name`` is the name of a strategy."""
    if name not in STRATEGIES:
        raise StrategyError(
            Words("There is no strategy {}.", Value(name)),
            fix=choice(name, STRATEGIES),
            strategy=str(name),
            reason="unknown-strategy",
        )


def strategy(
    name: str = "default",
    *,
    devices: Sequence[str] | None = None,
    replicas: int | None = None,
    communication: str = "auto",
    keras_compat: bool = True,
    start_timeout: float | None = None,
    tpu: str | None = None,
    min_shard_bytes: int | None = None,
    gradient_dtype: str | None = None,
) -> Any:
    """Create a ``tf.distribute`` strategy.

    Parameters
    ----------
    name : str
        One of ``default``, ``one_device``, ``mirrored``, ``central_storage``, ``multi_worker_mirrored``,
        ``parameter_server``, ``tpu``.
    devices : sequence of str, optional
        For ``one_device`` (exactly one), ``mirrored``, and ``central_storage``: devices such as ``"GPU:0"``
        or ``"CPU:1"``. Default: all GPUs, or the CPU if there is no GPU.
    replicas : int, optional
        For ``mirrored`` and ``central_storage``: use this many GPUs. On a machine with fewer GPUs, use this
        many logical CPUs, so that you can try a strategy without GPUs.
    communication : {"auto", "tcp", "tensorflow", "ring", "nccl"}
        How ``multi_worker_mirrored`` sums gradients. ``"auto"`` sums directly between CPUs
        (:mod:`tfmuster.collectives`), and otherwise as TensorFlow chooses. ``"tcp"`` does the same without
        reading the memory of other workers of this machine. ``"tensorflow"`` is always as TensorFlow chooses,
        ``"ring"`` its ring over gRPC, and ``"nccl"`` NVIDIA's NCCL. With ``"auto"``, the environment variable
        ``TFMUSTER_COMMUNICATION`` counts.
    keras_compat : bool
        Patch Keras 3 for several workers (see :mod:`tfmuster.keras_compat`).
    start_timeout : float, optional
        For ``multi_worker_mirrored`` and ``parameter_server``: seconds to wait for the other tasks. Default:
        ``TFMUSTER_START_TIMEOUT``, else 60.
    tpu : str, optional
        For ``tpu``: name or address of a TPU. Default: TensorFlow looks for a local one.
    min_shard_bytes : int, optional
        For ``parameter_server``: minimum size, in bytes, of the pieces that a weight is split into across
        parameter servers. Default: 262,144.
    gradient_dtype : {"float32", "bfloat16", "float16"}, optional
        For ``multi_worker_mirrored``: data type of the gradients that workers send each other in ``fit`` and
        in loops with a Keras 3 optimizer. The 16-bit types halve the bytes of each step; sums are computed in
        float32. Default: ``TFMUSTER_GRADIENT_DTYPE``, else the type they are computed in.

    Returns
    -------
    tf.distribute.Strategy
        Create the model inside ``with strategy.scope():``. A process has one ``multi_worker_mirrored``:
        further calls with the same arguments return it.

    Raises
    ------
    StrategyError
        The strategy can't be created here; ``error.fields["reason"]`` names the cause.
    ClusterError
        TF_CONFIG is set but invalid.
    RendezvousError
        A worker did not join in time, or has another cluster or other versions; the error names it.
    DependencyError
        TensorFlow is not installed for this Python.

    Examples
    --------
    >>> import tfmuster
    >>> strategy = tfmuster.strategy("mirrored", replicas=2)  # doctest: +SKIP
    >>> with strategy.scope():  # doctest: +SKIP
    ...     model = tfmuster.mnist_model("cnn")
    """
    check_name(name)
    require_tensorflow_backend(
        "strategy()", "call keras.distribution.initialize() and keras.distribution.set_distribution()"
    )
    _refuse_unused(
        name,
        devices=devices,
        replicas=replicas,
        start_timeout=start_timeout,
        tpu=tpu,
        min_shard_bytes=min_shard_bytes,
        gradient_dtype=gradient_dtype,
    )
    makers: dict[str, Callable[[], Any]] = {
        "default": _default,
        "one_device": lambda: _one_device(devices),
        "mirrored": lambda: _mirrored(local_devices(name, devices, replicas)),
        "central_storage": lambda: _central_storage(local_devices(name, devices, replicas)),
        "multi_worker_mirrored": lambda: multi_worker_mirrored(communication, start_timeout, gradient_dtype),
        "parameter_server": lambda: _parameter_server(min_shard_bytes, start_timeout),
        "tpu": lambda: _tpu(tpu),
    }
    made = makers[name]()
    if keras_compat:
        from ..rendezvous.task.agreement import prepare_keras

        prepare_keras()
    return made


def _refuse_unused(name: str, **arguments: Any) -> None:
    takes = {
        "devices": ("one_device", "mirrored", "central_storage"),
        "replicas": ("mirrored", "central_storage"),
        "start_timeout": ("multi_worker_mirrored", "parameter_server"),
        "tpu": ("tpu",),
        "min_shard_bytes": ("parameter_server",),
        "gradient_dtype": ("multi_worker_mirrored",),
    }
    for argument, value in arguments.items():
        if value is not None and name not in takes[argument]:
            raise StrategyError(
                Words("{} does not apply to the strategy {}.", argument, Value(name)),
                found=str(Argument(argument, value)),
                fix=f"leave it out, or choose {' or '.join(takes[argument])}",
                strategy=name,
                reason="unused-argument",
            )


# ---- on one machine ---------------------------------------------------------------------------------


def _default() -> Any:
    tf = import_tensorflow()

    return tf.distribute.get_strategy()


def _one_device(devices: Sequence[str] | None) -> Any:
    tf = import_tensorflow()

    if devices is None:
        devices = ["GPU:0" if tf.config.list_physical_devices("GPU") else "CPU:0"]
    if isinstance(devices, str):
        devices = [devices]
    if len(devices) != 1:
        raise StrategyError(
            "one_device takes exactly one device.",
            found=str(Argument("devices", list(devices))),
            fix=Words(
                "{}, or {} for several",
                Argument("devices", ["CPU:0"]),
                Code('strategy("mirrored", devices=...)', 'strategy("mirrored", devices = ...)'),
            ),
            strategy="one_device",
            reason="devices",
        )
    return tf.distribute.OneDeviceStrategy(checked("one_device", devices)[0])


def _mirrored(devices: list[str] | None) -> Any:
    tf = import_tensorflow()

    return tf.distribute.MirroredStrategy(devices)


def _central_storage(devices: list[str] | None) -> Any:
    tf = import_tensorflow()

    make = tf.distribute.experimental.CentralStorageStrategy
    return make(compute_devices=devices, parameter_device="/cpu:0") if devices else make()


# ---- on several machines ----------------------------------------------------------------------------


def _parameter_server(min_shard_bytes: int | None, start_timeout: float | None) -> Any:
    from .parameter_server.serving import make_strategy

    task = task_in_force("parameter_server")
    return make_strategy(task, min_shard_bytes=min_shard_bytes, start_timeout=start_timeout)


def _tpu(address: str | None) -> Any:
    tf = import_tensorflow()

    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu=address)
        tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
        return tf.distribute.TPUStrategy(resolver)
    except (ValueError, RuntimeError, OSError, tf.errors.OpError) as error:
        raise StrategyError(
            "The strategy tpu needs a Cloud TPU that TensorFlow can reach.",
            found=str(error).partition("\n")[0] or type(error).__name__,
            fix=Words(
                "run on a TPU VM with {}, or pass the name of a TPU of your project", Argument("tpu", "local")
            ),
            strategy="tpu",
            reason="no-tpu",
        ) from error
