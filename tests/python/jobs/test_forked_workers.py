"""A program forked with TensorFlow imported does what one does that is started: see support/forks.py."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from support.forks import FRESH
from support.launching import python, tfmuster, wait_until, write

pytestmark = [
    pytest.mark.timeout(200),
    pytest.mark.skipif("FORK_SERVERS" not in os.environ, reason="programs are not forked here"),
]

SEEN = """
import json, os, random, signal, sys, tempfile, threading
import numpy, tensorflow
differs = ("FORK_SERVERS", "PYTEST_CURRENT_TEST")
print(json.dumps({
    "argv": [sys.argv, sys.orig_argv, sys.executable],
    "file": [globals().get("__file__"), sys._getframe().f_code.co_filename],
    "main": [__name__, str(__loader__)[:30], sorted(vars(sys.modules["__main__"]))],
    "path": sys.path,
    "folder": os.getcwd(),
    "environ": {name: value for name, value in os.environ.items() if name not in differs},
    "hash": hash("a word"),
    "stdin": sys.stdin.read(),
    "streams": [[each.encoding, each.errors, each.line_buffering] for each in (sys.stdout, sys.stderr)],
    "signals": [str(signal.getsignal(number)) for number in (2, 10, 15, 17)],
    "threads": threading.active_count(),
    "started": len(tensorflow.config.list_logical_devices()),
}))
print(json.dumps({
    "forked": hasattr(sys, "forked_for_test"),
    "random": random.random(),
    "numpy": numpy.random.rand(),
    "file": tempfile.mktemp(),
    "bytes": os.urandom(4).hex(),
}))
"""
#: What TensorFlow says when it is imported, or started.
LOG = re.compile(r"^(WARNING: All log messages before absl|[IWE]\d{4} |To enable the following).*\n", re.M)


def run(folder: Path, *words: object, **env: str) -> subprocess.CompletedProcess[str]:
    return python(*words, cwd=folder, limit=60, PYTHONHASHSEED="0", **env)


@pytest.mark.parametrize("way", ["file", "text"])
def test_a_program_sees_what_it_would_see(tmp_path: Path, way: str) -> None:
    program = (write(tmp_path, "seen.py", SEEN).name,) if way == "file" else ("-c", SEEN)
    forked, again, fresh = [
        [json.loads(line) for line in run(tmp_path, *program, "a", "b c", **env).stdout.splitlines()]
        for env in ({}, {}, FRESH)
    ]
    assert forked[0] == fresh[0] == again[0]
    assert [each[1].pop("forked") for each in (forked, again, fresh)] == [True, True, False]
    for name, value in forked[1].items():
        assert value != again[1][name], name


@pytest.mark.parametrize(
    "last",
    [
        "sys.exit(3)",
        "sys.exit('a reason')",
        "raise ValueError('planted')",
        "def inner(): raise KeyError('a') from OSError('b')\ninner()",
        "import atexit; atexit.register(print, 'last'); os.environ['A']",
        "os._exit(7)",
        "os.kill(os.getpid(), 9)",
        "import signal; os.kill(os.getpid(), signal.SIGTERM); signal.pause()",
        "raise KeyboardInterrupt",
        "import threading, time; threading.Thread(target=lambda: (time.sleep(0.3), print('late'))).start()",
        "1 +",
    ],
)
def test_a_program_ends_as_it_would_end(tmp_path: Path, last: str) -> None:
    # Its name is enough to have the program forked, and a fresh one need not wait for it.
    lines = (
        "import os, sys  # not tensorflow",
        "print('out', flush=True); print('err', file=sys.stderr)",
        last,
    )
    program = write(tmp_path, "ends.py", *lines)
    forked, fresh = (run(tmp_path, program, **env) for env in ({}, FRESH))
    assert (forked.returncode, forked.stdout) == (fresh.returncode, fresh.stdout)
    assert LOG.sub("", forked.stderr) == LOG.sub("", fresh.stderr)


@pytest.mark.skipif("sys.version_info < (3, 11)", reason="the option -P is new in Python 3.11")
@pytest.mark.parametrize(
    "option", [("--strategy", "x"), ("--epochs", 1, "--batch", 5000, "--dataset", "synthetic")]
)
def test_a_verb_does_what_it_would_do(tmp_path: Path, option: tuple[object, ...]) -> None:
    words = ("-P", "-m", "tfmuster", "train", "mnist", *option)
    forked, fresh = (run(tmp_path, *words, **env) for env in ({}, FRESH))
    timed = re.compile(r"[\d.]+ m?s(/step)?")
    assert (forked.returncode, timed.sub("", forked.stdout)) == (
        fresh.returncode,
        timed.sub("", fresh.stdout),
    )
    assert LOG.sub("", forked.stderr) == LOG.sub("", fresh.stderr)


def test_it_gets_signals_and_ends_with_the_process_that_stands_for_it(tmp_path: Path) -> None:
    program = write(
        tmp_path,
        "waits.py",
        "import os, pathlib, signal, sys, time, tensorflow",
        "signal.signal(signal.SIGUSR1, lambda *_: pathlib.Path('signalled').touch())",
        "pathlib.Path('pids').write_text(f'{os.getpid()} {pathlib.Path(\"/proc/self\").readlink()}')",
        "while True: time.sleep(0.05)",
    )
    process = subprocess.Popen([sys.executable, program], cwd=tmp_path)
    try:
        wait_until(lambda: (tmp_path / "pids").exists() and (tmp_path / "pids").read_text())
        said, real = map(int, (tmp_path / "pids").read_text().split())
        assert said == process.pid != real
        process.send_signal(signal.SIGUSR1)
        wait_until((tmp_path / "signalled").exists)
    finally:
        process.kill()
        process.wait()
    wait_until(lambda: not os.path.exists(f"/proc/{real}"), 5)


def test_workers_train_to_the_same_bits_and_leave_the_same_run(tmp_path: Path) -> None:
    program = write(
        tmp_path,
        "train.py",
        "import os, sys, numpy as np, keras, tfmuster",
        "strategy = tfmuster.strategy('multi_worker_mirrored')",
        "x = np.random.rand(64, 8).astype('float32'); y = x.sum(1, keepdims=True)",
        "with strategy.scope():",
        "    hidden = [keras.layers.Dense(n, name=f'n{n}') for n in {4, 5, 6}]",
        "    model = keras.Sequential([keras.Input((8,)), *hidden, keras.layers.Dense(1)])",
        "    model.compile('adam', 'mse')",
        "model.fit(x, y, epochs=3, batch_size=16, verbose=0)",
        "worker = strategy.cluster_resolver.task_id",
        "np.savez(f'{sys.argv[1]}-{worker}', *model.get_weights())",
        "print('forked:', hasattr(sys, 'forked_for_test'))",
    )
    for name, env in (("forked", {}), ("fresh", FRESH)):
        words = ["launch", "-n", 2, "--seed", 3, "--run-dir", f"run-{name}", program, name]
        done = tfmuster(*words, cwd=tmp_path, limit=100, **env)
        assert done.returncode == 0, done.stderr
        logs = [(tmp_path / f"run-{name}" / "logs" / f"worker-{i}.log").read_text() for i in range(2)]
        assert all(f"forked: {name == 'forked'}" in log for log in logs), logs
    with np.load(tmp_path / "fresh-0.npz") as expected:
        for name in ("forked-0", "forked-1", "fresh-1"):
            with np.load(tmp_path / f"{name}.npz") as found:
                assert found.files == expected.files and expected.files
                for each in expected.files:
                    np.testing.assert_array_equal(found[each], expected[each], err_msg=f"{name} {each}")
    kept = [read(tmp_path / f"run-{name}") for name in ("forked", "fresh")]
    assert kept[0] == kept[1]


def read(run: Path) -> tuple[object, ...]:
    """What a run has left, but for times and names."""
    files = sorted(str(path.relative_to(run)) for path in run.rglob("*") if path.is_file())
    status = json.loads((run / "status.json").read_text())
    return files, status["state"], sorted((n, t["state"], t["exit_code"]) for n, t in status["tasks"].items())
