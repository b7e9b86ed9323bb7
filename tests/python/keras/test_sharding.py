"""Each worker's data set: their rows, laid end to end, are the batches of one process."""

from __future__ import annotations

import numpy as np
import pytest

from tfmuster.errors import DataError
from tfmuster.keras_compat.rows import attached_pipeline, steps_in_epoch
from tfmuster.training.batches import batches


def digits(rows):
    """Rows that can be told apart: the row number is in the pixels and (modulo 10) in the label."""
    x = np.zeros((rows, 28, 28), np.uint8)
    x[:, 0, 0], x[:, 0, 1] = np.arange(rows) % 256, np.arange(rows) // 256
    return x, (np.arange(rows) % 10).astype(np.uint8)


def row_numbers(x):
    return x[:, 0, 0].astype(int) + 256 * x[:, 0, 1].astype(int)


def elements(dataset):
    return [(x.numpy(), y.numpy()) for x, y in dataset]


@pytest.mark.parametrize("rows", [96, 100, 97])
@pytest.mark.parametrize("workers", [1, 2, 3, 4])
@pytest.mark.parametrize("options", [{}, {"one_hot": True}, {"drop_remainder": True}, {"shuffle": False}])
def test_parts_make_up_the_batches_of_one_process(rows, workers, options):
    whole = batches(*digits(rows), 12, seed=5, repeated=True, steps=17, **options)
    parts = [list(attached_pipeline(whole)(worker, workers)) for worker in range(workers)]
    alone = elements(whole)
    assert len(alone) == 17
    assert {len(part) for part in parts} == {17}
    for (images, labels), *mine in zip(alone, *parts, strict=True):
        sizes = [int(part.rows) for part in mine]
        assert max(sizes) - min(sizes) <= 1
        assert {int(part.global_rows) for part in mine} == {len(images)}
        # A worker without rows of its own reads one that does not count, since TensorFlow fails on none.
        assert [len(part.data[0]) for part in mine] == [max(size, 1) for size in sizes]
        own = [[rows[: int(part.rows)] for rows in part.data] for part in mine]
        assert np.concatenate([images for images, _ in own]).tobytes() == images.tobytes()
        assert np.concatenate([labels for _, labels in own]).tobytes() == labels.tobytes()


@pytest.mark.parametrize("rows,batch", [(1000, 64), (1000, 100), (7, 64), (1, 1), (60_000, 1024)])
def test_each_epoch_is_a_permutation_of_its_own(rows, batch):
    x, y = digits(rows)
    steps = steps_in_epoch(rows, batch)
    seen = elements(batches(x, y, batch, seed=3, repeated=True, steps=2 * steps))
    first, second = (
        np.concatenate([row_numbers(image) for image, _ in seen[i * steps : (i + 1) * steps]]) for i in (0, 1)
    )
    assert sorted(first) == sorted(second) == list(range(rows))
    if rows > 7:
        assert (first == second).mean() < 0.02
        assert (first == np.arange(rows)).mean() < 0.02
    labels = np.concatenate([label for _, label in seen[:steps]])
    np.testing.assert_array_equal(labels, first % 10)


def test_a_shuffled_batch_is_drawn_from_everywhere():
    x, y = digits(10_000)
    means = [row_numbers(image).mean() for image, _ in elements(batches(x, y, 100, seed=0))]
    # The mean of 100 rows drawn from 0..9999 has a standard deviation of 287.
    assert abs(np.mean(means) - 4999.5) < 1e-6
    assert 200 < np.std(means) < 380


def test_order_comes_from_seed_and_epoch_alone():
    x, y = digits(50)

    def order(**options):
        return [row_numbers(image).tolist() for image, _ in elements(batches(x, y, 20, **options))]

    assert order(seed=1) == order(seed=1)
    assert order(seed=1) != order(seed=2)
    two_epochs = order(seed=1, repeated=True, steps=6)
    assert two_epochs[:3] == order(seed=1)
    assert two_epochs[3:] == order(seed=1, first_epoch=1)
    dataset = batches(x, y, 20, seed=1, repeated=True)
    next(iter(dataset))
    assert row_numbers(next(iter(dataset))[0].numpy()).tolist() == two_epochs[0]


def test_types_and_cardinality():
    import tensorflow as tf

    x, y = digits(100)
    assert batches(x, y, 30, seed=0).cardinality().numpy() == 4
    assert batches(x, y, 30, seed=0, drop_remainder=True).cardinality().numpy() == 3
    assert batches(x, y, 30, seed=0, steps=2).cardinality().numpy() == 2
    assert batches(x, y, 30, seed=0, repeated=True).cardinality().numpy() == tf.data.INFINITE_CARDINALITY
    images, labels = batches(x, y, 25, seed=0).element_spec
    assert (images.dtype, images.shape) == (tf.uint8, (25, 28, 28))
    assert (labels.dtype, labels.shape) == (tf.uint8, (25,))
    images, labels = batches(x, y, 30, seed=0, one_hot=True).element_spec
    assert images.shape.as_list() == [None, 28, 28]
    assert (labels.dtype, labels.shape.as_list()) == (tf.float32, [None, 10])


@pytest.mark.parametrize(
    "rows,labels,batch,options,reason",
    [
        (10, 9, 5, {}, "lengths-differ"),
        (0, 0, 5, {}, "empty"),
        (10, 10, 0, {}, "batch-size"),
        (10, 10, 11, {"drop_remainder": True}, "batch-size"),
    ],
)
def test_unusable_input_is_refused(rows, labels, batch, options, reason):
    x, y = digits(rows)[0], digits(labels)[1]
    with pytest.raises(DataError) as caught:
        batches(x, y, batch, seed=0, **options)
    assert caught.value.fields["reason"] == reason


def test_global_batch_must_divide_over_the_replicas():
    import tensorflow as tf

    class TwoReplicas(tf.distribute.OneDeviceStrategy):
        num_replicas_in_sync = 2

    with pytest.raises(DataError, match="multiple of the number of replicas, 2") as caught:
        batches(*digits(10), 5, seed=0, strategy=TwoReplicas("CPU:0"))
    assert caught.value.fields["reason"] == "batch-size"
