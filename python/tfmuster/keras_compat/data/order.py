"""Keep the order of ``tf.data`` pipelines: each worker takes its rows of a batch by their places.

Parallel steps may pass on whatever is ready first, if the program says so. Then the workers' batches have
other rows, and some rows are trained on twice, others not at all.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from ...errors import DataError
from ...system.register import Seam
from .. import seams
from ..process import tell
from .pipelines import kind_of

if TYPE_CHECKING:
    import tensorflow as tf


def keep_order() -> None:
    """Make the steps of pipelines from now on keep the order. You can call it more than once."""
    for seam in seams.PARALLEL_STEPS:
        _keep(seam, "deterministic", disorder=False)
    _keep(seams.LEGACY_INTERLEAVE, "sloppy", disorder=True)


def _keep(seam: Seam, parameter: str, *, disorder: bool) -> None:
    """Let the class of a step get the other value of a parameter if it may change the order with this one."""
    if seam.replaced:
        return
    stock = seam.get()
    signature = inspect.signature(stock)

    @seam.wrap
    def init(self: Any, *args: object, **kwargs: object) -> None:
        given = signature.bind(self, *args, **kwargs)
        if given.arguments.get(parameter) is disorder:
            given.arguments[parameter] = not disorder
            tell(
                "order",
                f"a step of tf.data with {parameter}={disorder} keeps the order of rows: each worker takes "
                "its rows of a batch by their places",
            )
        stock(*given.args, **given.kwargs)


def in_order(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Return a data set whose parallel steps keep the order, whatever its options say."""
    import tensorflow as tf

    options = tf.data.Options()
    options.deterministic = True
    return dataset.with_options(options)


def refuse_servers(dataset: tf.data.Dataset) -> None:
    """Raise a DataError (reason ``order``) if rows come from servers, which send what is ready first."""
    waiting = [dataset]
    while waiting:
        step = waiting.pop()
        if kind_of(step) == "DataService":
            raise DataError(
                "Rows of tf.data servers come in another order on each worker.",
                found="a data set with tf.data.experimental.service.distribute()",
                fix="leave it out: each worker prepares its own rows only. Or let the servers give each "
                "worker rows of its own, and say so: tfmuster.own_rows(dataset)",
                reason="order",
            )
        waiting += seams.INPUTS.of(step)()
