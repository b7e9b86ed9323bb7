"""``keras.utils.get_file`` downloads once on a machine, and a file that has its name is whole."""

from __future__ import annotations

import contextlib
import functools
import http.server
import os
import signal
import threading
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.launching import start_tfmuster, tfmuster, wait_until, write

pytestmark = pytest.mark.slow
PIECES = 8


class Slow(http.server.SimpleHTTPRequestHandler):
    """Sends a file in pieces, and notes what was asked for."""

    asked: list[str]

    def __init__(self, *args: object, asked: list[str], seconds: float, **more: object) -> None:
        self.asked, self.seconds = asked, seconds
        super().__init__(*args, **more)  # type: ignore[arg-type]

    def copyfile(self, source: object, outputfile: object) -> None:
        self.asked.append(self.path)
        content = source.read()  # type: ignore[attr-defined]
        size = len(content) // PIECES + 1
        with contextlib.suppress(OSError):
            for begin in range(0, len(content), size):
                outputfile.write(content[begin : begin + size])  # type: ignore[attr-defined]
                time.sleep(self.seconds / PIECES)

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def served(folder: Path, seconds: float) -> Iterator[tuple[str, list[str]]]:
    """The address of a server for the files of a folder, which takes its time, and what it was asked."""
    asked: list[str] = []
    handler = functools.partial(Slow, directory=str(folder), asked=asked, seconds=seconds)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", asked
        server.shutdown()


def test_the_workers_of_a_machine_share_one_download(tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "rows.bin").write_bytes(os.urandom(1 << 20))
    with zipfile.ZipFile(tmp_path / "files" / "many.zip", "w") as archive:
        for number in range(50):
            archive.writestr(f"part-{number}.txt", "x" * 1000)
    write(
        tmp_path,
        "train.py",
        "import os, pathlib, sys",
        "import keras",
        "path = keras.utils.get_file(origin=sys.argv[1] + '/rows.bin')",
        "folder = pathlib.Path(keras.utils.get_file('many.zip', sys.argv[1] + '/many.zip', extract=True))",
        "parts = [part.read_text() for part in folder.iterdir()]",
        "print('read', os.path.getsize(path), len(parts), {len(part) for part in parts}, flush=True)",
    )
    with served(tmp_path / "files", 1.5) as (address, asked):
        for _ in range(2):
            done = tfmuster(
                "launch",
                "--all-output",
                "-n",
                3,
                "train.py",
                address,
                cwd=tmp_path,
                KERAS_HOME=str(tmp_path / "keras"),
            )
            assert done.returncode == 0, done.stderr
            assert done.stdout.count("read 1048576 50 {1000}") == 3
        assert asked == ["/rows.bin", "/many.zip"]


def test_a_download_that_a_job_has_not_finished_is_not_taken_for_the_file(tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "rows.bin").write_bytes(os.urandom(1 << 20))
    home = tmp_path / "keras"
    write(
        tmp_path,
        "train.py",
        "import os, sys",
        "import keras",
        "print('got', os.path.getsize(keras.utils.get_file(origin=sys.argv[1] + '/rows.bin')), flush=True)",
    )
    with served(tmp_path / "files", 60) as (address, asked):
        launcher = start_tfmuster("launch", "-n", 2, "train.py", address, cwd=tmp_path, KERAS_HOME=str(home))
        logs = tmp_path / "runs"
        wait_until(lambda: asked and any("waits" in log.read_text() for log in logs.glob("*/logs/*.log")))
        launcher.send_signal(signal.SIGTERM)
        output, _ = launcher.communicate(timeout=60)
        assert "another process gets rows.bin; this one waits" in output
    with served(tmp_path / "files", 0) as (address, _):
        done = tfmuster(
            "launch", "--all-output", "-n", 2, "train.py", address, cwd=tmp_path, KERAS_HOME=str(home)
        )
    assert done.stdout.count("got 1048576") == 2, done.stderr
