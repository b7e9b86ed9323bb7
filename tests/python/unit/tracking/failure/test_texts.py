"""The cause of an error in one line, the own lines of a traceback, and what to do."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest

from tfmuster.tracking.failure.failure import Failure
from tfmuster.tracking.failure.texts import HEADER, advice_for, cause_of, own_lines
from tfmuster.words import speaking

GRAPH = """\
tensorflow.python.framework.errors_impl.InvalidArgumentError: Graph execution error:

Detected at node gradient_tape/Equal defined at (most recent call last):
  File "/home/me/train.py", line 3, in <module>

<stack traces unavailable>
Incompatible shapes: [32] vs. [16]
\t [[{{node Equal}}]] [Op:__inference_step_12]"""
REPLICA = """\
ValueError: Attempt to convert a value (PerReplica:{
  0: <tf.Tensor: shape=(1,)>,
  1: <tf.Tensor: shape=(1,)>
}) with an unsupported type (<class 'PerReplica'>) to a Tensor."""


@pytest.mark.parametrize(
    ("error", "line"),
    [
        ("ValueError: no such layer\nmore", "ValueError: no such layer"),
        (
            GRAPH,
            "tensorflow.python.framework.errors_impl.InvalidArgumentError: "
            "Incompatible shapes: [32] vs. [16]",
        ),
        (
            REPLICA,
            "ValueError: Attempt to convert a value (PerReplica:{...}) with an unsupported type "
            "(<class 'PerReplica'>) to a Tensor.",
        ),
        ("ValueError:\n\n  the text below", "ValueError: the text below"),
        ("E: Graph execution error:", "E: Graph execution error:"),
        ("", ""),
    ],
)
def test_a_headline_holds_the_cause(error: str, line: str) -> None:
    assert cause_of(error) == line


def test_a_headline_is_short() -> None:
    assert len(cause_of("E: " + "x" * 9000)) == 403


def test_what_r_can_not_open_is_named() -> None:
    """R's error does not say it; the warning before it does."""
    error = 'Error in file(file, "rt") : cannot open the connection'
    warning = "cannot open file 'x.csv': No such file or directory"
    output = ["cannot open file 'other.csv': Permission denied", f"In file : {warning}", "Execution halted"]
    assert cause_of(error, output) == f'Error in file(file, "rt") : {warning}'
    assert cause_of(error, ["Execution halted"]) == cause_of(error) == error
    assert cause_of("ValueError: no", output) == "ValueError: no"


TRACE = """\
Traceback (most recent call last):
  File "/home/me/train.py", line 30, in <module>
    model.fit(x, y)
  File "/v/lib/python3.11/site-packages/keras/src/utils/traceback_utils.py", line 122, in error_handler
    raise e.with_traceback(filtered_tb) from None
  File "/v/lib/python3.11/site-packages/tensorflow/python/eager/execute.py", line 59, in quick_execute
    tensors = pywrap_tfe.TFE_Py_Execute(ctx._handle)
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
"""


def test_a_traceback_has_the_users_own_lines() -> None:
    assert own_lines(TRACE + "ValueError: no\n") == [
        "Traceback (most recent call last):",
        '  File "/home/me/train.py", line 30, in <module>',
        "    model.fit(x, y)",
        "  (2 frames of libraries: see the full output)",
        "ValueError: no",
    ]


def test_a_long_error_is_cut_and_only_libraries_keep_the_last_frame() -> None:
    library = "".join(TRACE.splitlines(keepends=True)[:1] + TRACE.splitlines(keepends=True)[3:])
    lines = own_lines(library + "ValueError: 0\n" + "".join(f"line {i}\n" for i in range(1, 300)))
    assert "execute.py" in lines[1] and lines[-1] == "... (270 more lines: see the full output)"
    assert len(lines) < 40


def test_of_chained_tracebacks_the_last_is_shown() -> None:
    chained = f"{TRACE}KeyError: 1\n\nDuring handling of the above exception, another exception occurred:\n\n"
    assert own_lines(chained + TRACE + "ValueError: no\n")[-1] == "ValueError: no"
    assert len(own_lines(chained + TRACE + "ValueError: no\n")) == 5


def test_a_users_folder_may_have_the_name_of_the_package() -> None:
    own = '  File "/home/me/tfmuster/python/train.py", line 3, in <module>'
    library = '  File "/lib/R/tfmuster/python/tfmuster/launcher/__init__.py", line 3, in launch'
    lines = own_lines(f"{HEADER}\n{own}\n{library}\nValueError: 0\n")
    assert own in lines and library not in lines


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
        (
            "ValueError: DistributedVariable.handle is not available outside the",
            "here",
            "With --distribute, var",
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
    ("error", "host", "said"),
    [
        (
            "ModuleNotFoundError: No module named 'pandas.core'",
            "here",
            "Install pandas for the Python that runs the workers, /p y/python: '/p y/python' -m pip "
            "install pandas. Or run a script with another: tfmuster launch [OPTIONS] -- PATH/TO/PYTHON "
            "script.py",
        ),
        (
            "ModuleNotFoundError: No module named 'keras'",
            "node1",
            "Install TensorFlow for the Python of the workers on node1, /p y/python: '/p y/python' -m "
            "pip install 'tfmuster[tensorflow]', or 'tfmuster[cpu]' for the smaller build without GPU "
            "support. Or choose another with --remote-python",
        ),
        (
            "Error in py_module_import(module, convert = convert): ModuleNotFoundError: No module named 'x'",
            "here",
            "Install x for the Python that runs the workers, /p y/python: '/p y/python' -m pip install "
            "x. Or choose another by the environment variable RETICULATE_PYTHON",
        ),
        (
            "Error: Python module keras was not found.",
            "here",
            "Install TensorFlow for the Python that runs the workers, /p y/python: '/p y/python' -m "
            "pip install 'tfmuster[tensorflow]', or 'tfmuster[cpu]' for the smaller build without GPU "
            "support. Or choose another by the environment variable RETICULATE_PYTHON",
        ),
        (
            "ImportError: cannot import name 'a' from 'b' (unknown location)",
            "here",
            "The import failed in the Python that runs the workers, /p y/python. Repair its packages, or "
            "run a script with another: tfmuster launch [OPTIONS] -- PATH/TO/PYTHON script.py",
        ),
    ],
)
def test_a_failed_import_names_its_python_and_how_to_choose_another(error: str, host: str, said: str) -> None:
    with speaking("shell"):
        assert advice_for(error, error, host=host, here="here", python="/p y/python") == said


@pytest.mark.parametrize("path", ["layers.py", "layers"])
def test_a_module_of_ones_own_is_sent_and_not_installed(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(path).mkdir()
    error = "ModuleNotFoundError: No module named 'layers.dense'"
    with speaking("shell"):
        there, here = (advice_for(error, error, host=host, here="here") for host in ("node1", "here"))
    assert there == f"layers is a module of your own, which node1 does not have. Send it with --file {path}."
    assert here is not None and here.startswith("Install layers")


@pytest.mark.parametrize("chooser", ["RETICULATE_PYTHON", "VIRTUAL_ENV", "tfmuster's own"])
def test_who_has_chosen_the_python_is_said(chooser: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RETICULATE_PYTHON", "VIRTUAL_ENV", "CONDA_PREFIX"):
        monkeypatch.delenv(name, raising=False)
    python = sys.executable
    if chooser.isupper():
        python = "/env/bin/python"
        monkeypatch.setenv(chooser, python if chooser == "RETICULATE_PYTHON" else "/env")
    failure = Failure.of(
        "worker 0",
        host=socket.gethostname(),
        code=1,
        time=0.0,
        note={"error": "Error: Python module keras was not found.", "python": python},
        last_lines=(),
        log="",
    )
    assert failure.fix is not None and f"{python} ({chooser}): " in failure.fix
    # Another session says the same, whichever Python that has.
    monkeypatch.undo()
    assert failure.advice() == failure.fix


@pytest.mark.parametrize(
    "error", ["FileNotFoundError: [Errno 2] No such file or directory: 'data/x.npz'", "ValueError: no", ""]
)
def test_nothing_is_said_where_nothing_is_known(error: str) -> None:
    assert advice_for(error, error, host="here", here="here") is None
