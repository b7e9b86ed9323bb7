"""What a failure says to do."""

from __future__ import annotations

import pytest

from tfmuster.tracking.failure.advice import advice_for
from tfmuster.words import speaking


@pytest.mark.parametrize(
    ("error", "host", "said"),
    [
        ("ModuleNotFoundError: No module named 'tensorflow'", "here", "pip install 'tfmuster[tensorflow]'"),
        ("ModuleNotFoundError: No module named 'keras.src'", "node1", "the Python of the workers on node1"),
        ("ModuleNotFoundError: No module named 'pandas.core'", "here", "-m pip install pandas"),
        ("ModuleNotFoundError: No module named 'pandas'", "node1", "--remote-python"),
        (
            "FileNotFoundError: [Errno 2] No such file or directory: 'data/x.npz'",
            "node1",
            "relative to the working directory on node1. Send it with --file data/x.npz",
        ),
        (
            "FileNotFoundError: [Errno 2] No such file or directory: '/data/x.npz'",
            "node1",
            "Put /data/x.npz on node1",
        ),
        ("Error: Required version of NumPy not available: installation of Numpy >= 1.6", "here", "'numpy<2'"),
        (
            "Error in file(file, \"rt\") : cannot open file 'x.csv': No such file or directory",
            "node1",
            "The path x.csv is relative to the working directory on node1. Send it with --file x.csv",
        ),
        ("MemoryError: Unable to allocate 9 GiB", "here", "smaller batches"),
    ],
)
def test_the_error_says_what_to_do(error: str, host: str, said: str) -> None:
    with speaking("shell"):
        advice = advice_for(
            error, f"worker 0 on {host} failed with exit code 1: {error}", host=host, here="here"
        )
    assert advice is not None and said in advice


@pytest.mark.parametrize(
    "error", ["FileNotFoundError: [Errno 2] No such file or directory: 'data/x.npz'", "ValueError: no", ""]
)
def test_nothing_is_said_where_nothing_is_known(error: str) -> None:
    assert advice_for(error, error, host="here", here="here") is None
