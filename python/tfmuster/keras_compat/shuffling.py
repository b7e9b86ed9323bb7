"""Keep the seed generator of every ``Dataset.shuffle``, so that two data sets can share one order.

A shuffle draws the order of each pass from a generator inside TensorFlow. A second shuffle with the same seed
gives the same orders only if nobody has read the first one before. If both have the same generator, they give
the same orders in every case, also without a seed.
"""

from __future__ import annotations

from typing import Any

_SEEDS = "_tfmuster_seed_generator"


class _Operations:
    """TensorFlow's operations of data sets, with a shuffle whose seed generator can be shared."""

    def __init__(self, operations: Any) -> None:
        self._operations = operations

    def __getattr__(self, name: str) -> Any:
        return getattr(self._operations, name)

    def shuffle_dataset_v3(self, input_dataset: Any, **arguments: Any) -> Any:
        """Make the shuffle, with a generator of its own in place of one that TensorFlow hides."""
        from tensorflow.python.eager import context

        if not context.executing_eagerly():
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
    from tensorflow.python.data.ops import shuffle_op

    if not isinstance(shuffle_op.gen_dataset_ops, _Operations):
        shuffle_op.gen_dataset_ops = _Operations(shuffle_op.gen_dataset_ops)


def can_share(shuffled: Any) -> bool:
    """Return whether the generator of a shuffled data set was kept."""
    return hasattr(shuffled._variant_tensor, _SEEDS)


def shuffled_alike(dataset: Any, shuffled: Any) -> Any:
    """Shuffle ``dataset`` as ``shuffled`` shuffles its own input: same buffer, same seeds, same generator."""
    from tensorflow.python.data.ops import dataset_ops
    from tensorflow.python.ops import gen_dataset_ops

    seeds = getattr(shuffled._variant_tensor, _SEEDS)
    variant = gen_dataset_ops.shuffle_dataset_v3(
        dataset._variant_tensor,
        buffer_size=shuffled._buffer_size,
        seed=shuffled._seed,
        seed2=shuffled._seed2,
        seed_generator=seeds.handle,
        reshuffle_each_iteration=bool(shuffled._reshuffle_each_iteration),
        metadata=shuffled._metadata.SerializeToString(),
        **dataset._flat_structure,
    )
    made = dataset_ops._VariantDataset(variant, dataset.element_spec)
    made._tfmuster_keeps = (dataset, seeds)
    return made
