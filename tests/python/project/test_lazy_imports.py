"""Nothing heavy is imported before it is needed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import tfmuster
from support.config_verb import SOURCE
from tfmuster.digits import mnist_files
from tfmuster.system.versions import installed_versions

pytestmark = pytest.mark.fresh


def test_nothing_heavy_is_imported() -> None:
    code = (
        "import sys, tfmuster; c = tfmuster.Cluster(worker=['a:1']); tfmuster.check_cluster(c)\n"
        "tfmuster.tf_config_json(c.task('worker', 0))\n"
        "print([m for m in ('tensorflow', 'numpy', 'yaml', 'socket', 'keras') if m in sys.modules])"
    )
    source = str(Path(tfmuster.__file__).parents[1])
    out = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {source!r})\n{code}"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        # `make coverage` imports more.
        env={key: value for key, value in os.environ.items() if not key.startswith("COVERAGE_")},
    )
    assert out.stdout.strip() == "[]"


def test_versions_without_importing_anything_heavy() -> None:
    code = (
        "import sys, tfmuster.system.versions as v\n"
        "print(v.installed_versions(), 'tensorflow' in sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == f"{installed_versions()} False"


def test_needs_no_tensorflow():
    code = "import sys, tfmuster.digits.datasets; sys.exit('tensorflow' in sys.modules)"
    python_path = str(Path(mnist_files.__file__).parents[2])
    subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": python_path}, check=True)


def test_to_launch_and_to_meet_imports_no_numpy() -> None:
    """A launcher is there at once, and a host may start a thousand tasks."""
    code = (
        "import sys, tfmuster.launcher, tfmuster.launcher.engines.local, tfmuster.rendezvous.task.join\n"
        "print([name for name in ('numpy', 'tfmuster.keras_compat') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_help_imports_no_verb() -> None:
    code = (
        "import sys; from tfmuster.cli import main; main(['--help']);"
        "print([m for m in sys.modules if 'tfmuster.cli.' in m])"
    )
    out = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": SOURCE},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert out.stdout.splitlines()[-1] == "[]"


def test_ctrl_c_during_the_imports_of_the_command_is_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "click.py").write_text("import os, signal; os.kill(os.getpid(), signal.SIGINT)")
    done = subprocess.run(
        [sys.executable, "-m", "tfmuster", "runs", "list"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), SOURCE])},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (-signal.SIGINT, "")
