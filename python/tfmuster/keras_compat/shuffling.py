"""Keep the seed generator of every ``Dataset.shuffle``, so that two data sets can share one order.

A shuffle draws the order of each pass from a generator inside TensorFlow. A second shuffle with the same seed
gives the same orders only if nobody has read the first one before. If both have the same generator, they give
the same orders in every case, also without a seed.
"""

from __future__ import annotations

from typing import Any

from . import seams

_SEEDS = "_tfmuster_seed_generator"


class _Operations:
    """TensorFlow's operations of data sets, with a shuffle whose seed generator can be shared."""

    def __init__(self, operations: Any) -> None:
        self._operations = operations

    def __getattr__(self, name: str) -> Any:
        return getattr(self._operations, name)

    def shuffle_dataset_v3(self, input_dataset: Any, **arguments: Any) -> Any:
        """Make the shuffle, with a generator of its own in place of one that TensorFlow hides."""
        if not seams.EXECUTING_EAGERLY.get()():
            return self._operations.shuffle_dataset_v3(input_dataset, **arguments)
        made = self._operations.anonymous_seed_generator(
            arguments["seed"], arguments["seed2"], arguments["reshuffle_each_iteration"]
        )
        arguments["seed_generator"] = made.handle
        variant = self._operations.shuffle_dataset_v3(input_dataset, **arguments)
        # TensorFlow deletes the generator together with its `deleter`.
        setattr(variant, _SEEDS, made)
        return variant


def patch_shuffle() -> None:
    """Make shuffles from now on keep their generators. You can call it more than once."""
    if not seams.SHUFFLE_OPERATIONS.replaced:
        seams.SHUFFLE_OPERATIONS.replace(_Operations(seams.SHUFFLE_OPERATIONS.get()))


def can_share(shuffled: Any) -> bool:
    """Return whether the generator of a shuffled data set was kept."""
    return hasattr(seams.VARIANT.of(shuffled), _SEEDS)


def shuffled_alike(dataset: Any, shuffled: Any) -> Any:
    """Shuffle ``dataset`` as ``shuffled`` shuffles its own input: same buffer, same seeds, same generator."""
    seeds = getattr(seams.VARIANT.of(shuffled), _SEEDS)
    variant = seams.SHUFFLE_DATASET.get()(
        seams.VARIANT.of(dataset),
        buffer_size=seams.BUFFER_SIZE.of(shuffled),
        seed=seams.SHUFFLE_SEED.of(shuffled),
        seed2=seams.SHUFFLE_SEED2.of(shuffled),
        seed_generator=seeds.handle,
        reshuffle_each_iteration=bool(seams.RESHUFFLES.of(shuffled)),
        metadata=seams.METADATA.of(shuffled).SerializeToString(),
        **seams.FLAT_STRUCTURE.of(dataset),
    )
    made = seams.VARIANT_DATASET.get()(variant, dataset.element_spec)
    made._tfmuster_keeps = (dataset, seeds)
    return made
