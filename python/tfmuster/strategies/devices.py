"""Resolve the device names that are passed to the strategies for one machine."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import StrategyError
from ..keras_compat.runtime.starting import STRATEGY_FIRST
from ..system.tensorflow_import import import_tensorflow
from ..words import Argument, Value, Words


def local_devices(name: str, devices: Sequence[str] | None, replicas: int | None) -> list[str] | None:
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
        return checked(name, [devices] if isinstance(devices, str) else devices)
    if replicas is None:
        return None
    if isinstance(replicas, bool) or not isinstance(replicas, int) or replicas < 1:
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


def checked(name: str, devices: Sequence[str]) -> list[str]:
    """Return the devices' names, or raise a StrategyError that lists the available devices."""
    tf = import_tensorflow()

    def canonical(device: str) -> str:
        spec = tf.DeviceSpec.from_string(device if "/" in device else f"/device:{device}")
        return f"{spec.device_type or 'CPU'}:{spec.device_index or 0}"

    wanted = {}
    for device in devices:
        try:
            wanted[device] = canonical(device)
        except (ValueError, TypeError, AttributeError):
            wanted[device] = str(device)
    highest = max((int(d.partition(":")[2]) for d in wanted.values() if d.startswith("CPU:")), default=0)
    if highest:
        _split_cpu(name, highest + 1)
    there = [canonical(device.name) for device in tf.config.list_logical_devices()]
    missing = [device for device, short in wanted.items() if short not in there]
    if missing:
        raise StrategyError(
            "TensorFlow has no such device here.",
            found=", ".join(str(Value(device)) for device in missing),
            fix="choose from the devices of this machine: " + ", ".join(there),
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
