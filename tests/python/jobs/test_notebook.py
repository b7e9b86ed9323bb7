"""launch() in a notebook: a kernel of Jupyter, and the messages that its front end would show."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.launching import environment, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(200)]

manager = pytest.importorskip("jupyter_client.manager")

TRAIN = """
import tfmuster

def train(epochs, strategy):
    result = tfmuster.train_mnist("mlp", dataset="synthetic", strategy=strategy, epochs=epochs, verbose=False)
    return len(result.history["loss"])

print("values", tfmuster.launch(train, 8, workers=2))
"""
WAIT = """
import os, time, tfmuster

def wait():
    open(f"here-{os.getpid()}", "w").close()
    time.sleep(100)

tfmuster.launch(wait, workers=2)
"""


class Notebook:
    """A kernel, and all that the cells have shown."""

    def __init__(self, folder: Path) -> None:
        where = {"cwd": str(folder), "env": environment()}
        self.manager, self.client = manager.start_new_kernel(kernel_name="python3", **where)

    def start(self, cell: str) -> None:
        """Run a cell, and don't wait."""
        self.client.execute(cell)

    def messages(self) -> Iterator[tuple[str, Any]]:
        """What the running cell shows until its end: the kind and the content of each message."""
        while True:
            message = self.client.get_iopub_msg(timeout=120)
            kind, content = message["msg_type"], message["content"]
            if kind == "status" and content["execution_state"] == "idle":
                return
            yield kind, content

    def close(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


@pytest.fixture
def notebook(tmp_path: Path) -> Iterator[Notebook]:
    opened = Notebook(tmp_path)
    yield opened
    opened.close()


def text_of(messages: list[tuple[str, Any]]) -> str:
    return "".join(content["text"] for kind, content in messages if kind == "stream")


def test_a_cell_shows_one_table_that_is_replaced_and_a_line_for_each_epoch(notebook: Notebook) -> None:
    notebook.start(TRAIN)
    shown = list(notebook.messages())
    tables = [
        (content["transient"]["display_id"], content["data"]["text/html"])
        for kind, content in shown
        if kind in ("display_data", "update_display_data")
    ]
    assert [kind for kind, _ in shown].count("display_data") == 1
    assert len({place for place, _ in tables}) == 1
    texts = [re.sub(r"<[^>]+>", " ", table) for _, table in tables]
    assert "worker 0" in texts[0] and "worker 1" in texts[0] and "starting" in texts[0]
    training = [table for _, table in tables if "training" in table]
    assert training and all(re.search(r'<progress max="\d+" value="\d+">', table) for table in training)
    assert texts[-1] == ""  # the table is removed when the job is over
    said = text_of(shown)
    assert re.findall(r"^worker 0 \| epoch (\d)  loss ", said, re.M) == [*"12345678"]
    assert said.endswith("values {'worker 0': 8, 'worker 1': 8}\n")


def test_a_failure_is_the_error_of_the_cell(notebook: Notebook) -> None:
    notebook.start(TRAIN.replace('"mlp"', '"dense"'))
    ((_, error),) = [each for each in notebook.messages() if each[0] == "error"]
    assert error["ename"] == "WorkerError"
    assert "There is no model of this name; the models are cnn, deep_cnn, mlp, softmax." in error["evalue"]
    assert "\n  found: 'dense'\n\n" in error["evalue"]
    assert "\n  to do: choose one of them" in error["evalue"]


def test_interrupting_the_kernel_ends_the_workers_and_keeps_the_session(
    notebook: Notebook, tmp_path: Path
) -> None:
    notebook.start(WAIT)
    wait_until(lambda: len(list(tmp_path.glob("here-*"))) == 2)
    notebook.manager.interrupt_kernel()
    ((_, error),) = [each for each in notebook.messages() if each[0] == "error"]
    assert error["ename"] == "KeyboardInterrupt"
    pids = [int(path.name.partition("-")[2]) for path in tmp_path.glob("here-*")]
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), 10)
    notebook.start("print('still', os.getpid() > 0)")
    assert text_of(list(notebook.messages())) == "still True\n"
