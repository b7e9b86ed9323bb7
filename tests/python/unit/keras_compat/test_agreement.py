"""The error for workers that make a weight in different shapes, from TensorFlow's text."""

from __future__ import annotations

import pytest

from tfmuster.keras_compat.agreement.comparison import other_weight

TEXT = (
    "{{{{function_node __wrapped__CollectiveBcastRecv_device_/job:worker/replica:0/task:1/device:CPU:0}}}} "
    "Collective ops is aborted by: Shape mismatch in the collective instance 100. Op at device "
    "/job:{job}/replica:0/task:{index}/device:CPU:0 expected shape [5,3] but another member in the group "
    "expected shape [4,3]. This is likely due to different input shapes."
)


@pytest.mark.parametrize(("job", "index"), [("worker", 0), ("worker", 1), ("chief", 0)])
def test_the_worker_that_tensorflow_names_has_the_shape(job: str, index: int) -> None:
    """Each worker may get the error in which TensorFlow names another one."""
    error = other_weight("kernel", TEXT.format(job=job, index=index))
    assert error is not None
    said = f"kernel has the shape [5,3] on {job} {index}, and [4,3] on another worker."
    assert said in str(error)
    assert error.fields["reason"] == "workers-differ"


def test_another_error_is_left_alone() -> None:
    assert other_weight("kernel", "Matrix size-incompatible: In[0]: [1,2], In[1]: [3,4]") is None
