"""Create the strategies for one machine or a TPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..errors import StrategyError
from ..keras_compat.runtime.starting import STRATEGY_FIRST
from ..system.tensorflow_import import import_tensorflow
from ..words import Argument, Code, Value, Words

if TYPE_CHECKING:
    import tensorflow as tf


def local_strategy(
    name: str, devices: Sequence[str] | None, replicas: int | None, tpu: str | None
) -> tf.distribute.Strategy:
    """Create a strategy that needs no cluster; the arguments are those of `strategy`."""
    tf = import_tensorflow()
    if name == "default":
        return tf.distribute.get_strategy()
    if name == "tpu":
        return _tpu_strategy(tpu)
    if isinstance(devices, str):
        devices = [devices]
    if name == "one_device":
        if devices is None:
            devices = ["GPU:0" if tf.config.list_physical_devices("GPU") else "CPU:0"]
        if len(devices) != 1:
            raise StrategyError(
                "one_device takes exactly one device.",
                found=str(Argument("devices", list(devices))),
                fix=Words(
                    "{}, or {} for several",
                    Argument("devices", ["CPU:0"]),
                    Code('strategy("mirrored", devices=...)', 'strategy("mirrored", devices = ...)'),
                ),
                strategy=name,
                reason="devices",
            )
        return tf.distribute.OneDeviceStrategy(_checked(name, devices)[0])
    device_names = _device_names(name, devices, replicas)
    if name == "mirrored":
        return tf.distribute.MirroredStrategy(device_names)
    central_storage = tf.distribute.experimental.CentralStorageStrategy
    if not device_names:
        return central_storage()
    return central_storage(compute_devices=device_names, parameter_device="/cpu:0")


def _device_names(name: str, devices: Sequence[str] | None, replicas: int | None) -> list[str] | None:
    """Return device names for ``devices`` or ``replicas``; None leaves the choice to TensorFlow."""
    tf = import_tensorflow()
    if devices is not None and replicas is not None:
        raise StrategyError(
            "Pass devices or replicas, not both.",
            found=Words("{}, {}", Argument("devices", list(devices)), Argument("replicas", replicas)),
            strategy=name,
            reason="devices",
        )
    if devices is not None:
        return _checked(name, devices)
    if replicas is None:
        return None
    if type(replicas) is not int or replicas < 1:
        raise StrategyError(
            "replicas must be a whole number of at least 1.",
            found=str(Argument("replicas", replicas)),
            strategy=name,
            reason="replicas",
        )
    gpus = tf.config.list_logical_devices("GPU") if tf.config.list_physical_devices("GPU") else []
    if len(gpus) >= replicas:
        return [f"GPU:{index}" for index in range(replicas)]
    _split_cpu(name, replicas)
    return [f"CPU:{index}" for index in range(replicas)]


def _split_cpu(name: str, count: int) -> None:
    """Create at least ``count`` logical CPUs, which TensorFlow allows only before it has started."""
    tf = import_tensorflow()
    cpu = tf.config.list_physical_devices("CPU")[0]
    if len(tf.config.get_logical_device_configuration(cpu) or [None]) >= count:
        return
    try:
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * count)
    except RuntimeError as error:
        raise StrategyError(
            f"The CPU can't be split into {count} logical devices, because TensorFlow has already started.",
            fix=STRATEGY_FIRST,
            strategy=name,
            reason="already-started",
        ) from error


def _checked(name: str, devices: Sequence[str]) -> list[str]:
    """Return the devices' short names, or raise a StrategyError that lists the available devices."""
    tf = import_tensorflow()

    def short_name(device: str) -> str:
        spec = tf.DeviceSpec.from_string(device if "/" in device else f"/device:{device}")
        return f"{spec.device_type or 'CPU'}:{spec.device_index or 0}"

    wanted = {}
    for device in devices:
        try:
            wanted[device] = short_name(device)
        except (ValueError, TypeError, AttributeError):
            wanted[device] = str(device)
    highest = max((int(d.partition(":")[2]) for d in wanted.values() if d.startswith("CPU:")), default=0)
    if highest:
        _split_cpu(name, highest + 1)
    available = [short_name(device.name) for device in tf.config.list_logical_devices()]
    missing = [device for device, short in wanted.items() if short not in available]
    if missing:
        raise StrategyError(
            "TensorFlow has no such device here.",
            found=", ".join(str(Value(device)) for device in missing),
            fix="choose from the devices of this machine: " + ", ".join(available),
            strategy=name,
            reason="no-device",
        )
    if len(set(wanted.values())) < len(devices):
        raise StrategyError(
            "Each device can be listed only once.",
            found=str(Argument("devices", list(devices))),
            strategy=name,
            reason="devices",
        )
    return list(wanted.values())


def _tpu_strategy(address: str | None) -> tf.distribute.TPUStrategy:
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
