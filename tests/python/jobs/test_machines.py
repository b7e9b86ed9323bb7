"""Workers on machines whose files, packages or settings differ learn of it before the first step."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from support.launching import tfmuster, write

pytestmark = [
    pytest.mark.timeout(200),
    pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("unshare"), reason="needs a namespace of names"),
]

#: Each worker is on a machine with a name of its own, in a folder of its own, and may have a variable.
ON_ITS_MACHINE = f"""
case "$TF_CONFIG" in *'"index": 1'* | *'"index":1'*) name=m1; eval "$1" ;; *) name=m0 ;; esac
cd "$name" && exec unshare --uts sh -c "hostname $name; exec {sys.executable} train.py"
"""
PROGRAM = """
import keras
import numpy as np
import helper
import paths

x = helper.prepared(np.arange(64.0).reshape(16, 4))
model = keras.Sequential([keras.layers.Dense(1)])
model.compile("sgd", "mse")
for epoch in range(2):
    model.fit(x, x[:, :1], verbose=0, shuffle=False)
print("trained")
"""
HELPER = "def prepared(x):\n    return x / {}\n"


def launched(folder: Path, on_worker_1: str = ":") -> tuple[int, str]:
    command = "sh", "-c", ON_ITS_MACHINE, "sh", on_worker_1
    done = tfmuster("launch", "--all-output", "-n", 2, "--distribute", "--", *command, cwd=folder, limit=150)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    """Two copies of a program whose modules with paths differ."""
    made = [tmp_path / f"m{index}" for index in (0, 1)]
    for folder in made:
        folder.mkdir()
        write(folder, "train.py", PROGRAM)
        write(folder, "helper.py", HELPER.format(64))
        write(folder, "paths.py", f"FOLDER = '{folder}'  # of this machine\n")
    return made


def test_texts_may_differ_and_are_told(folders: list[Path]) -> None:
    code, said = launched(folders[0].parent)
    assert code == 0, said
    assert len(re.findall(r"^worker \d \| trained$", said, re.MULTILINE)) == 2
    told = "tfmuster: file paths.py of worker 1 has other texts or comments than that of worker 0"
    assert said.count(told) == 1, said


def test_a_module_may_be_imported_by_one_worker_alone(folders: list[Path]) -> None:
    write(folders[0], "figures.py", "SIZE = 3\n")
    write(folders[0], "train.py", "import figures", PROGRAM)
    write(folders[1], "train.py", PROGRAM, "# figures")
    code, said = launched(folders[0].parent)
    assert code == 1
    assert "worker 0 has file train.py " in said and "figures.py" not in said


@pytest.mark.parametrize(
    "ending",
    [
        # It prepares values that no sample of rows tells from the others.
        "    x[5] += 1e-4\n    return x / 64\n",
        # It is being edited after it was imported, and can not be read as a program.
        "    return x / 64\nopen('helper.py', 'w').write('def prepared(')\n",
    ],
)
def test_a_stale_copy_is_refused(folders: list[Path], ending: str) -> None:
    write(folders[1], "helper.py", f"def prepared(x):\n{ending}")
    code, said = launched(folders[0].parent)
    assert code == 1
    assert re.search(
        r"agree when fit begins: worker 0 has file helper\.py \w{8}, worker 1 has file helper\.py \w{8}", said
    )
    assert "put the same files on every machine, or send them with --file" in said


def test_a_script_that_sets_tf_config_differs(folders: list[Path]) -> None:
    for index, folder in enumerate(folders):
        write(folder, "train.py", f"INDEX = {index}  # of TF_CONFIG", PROGRAM)
    code, said = launched(folders[0].parent)
    assert code == 0, said


@pytest.mark.parametrize("variable", ["TF_ENABLE_ONEDNN_OPTS", "XLA_FLAGS"])
def test_variables_that_change_numbers_are_compared(folders: list[Path], variable: str) -> None:
    value = {"TF_ENABLE_ONEDNN_OPTS": "0", "XLA_FLAGS": "--xla_cpu_enable_fast_math=true"}[variable]
    code, said = launched(folders[0].parent, f"export {variable}={value}")
    assert code == 1
    assert f"worker 0 has variable {variable} no value, worker 1 has variable {variable} {value}" in said
    assert "give the variable the same value on every machine" in said


def test_releases_of_packages_are_compared(folders: list[Path], tmp_path: Path) -> None:
    """Patch releases may differ."""
    for index, numbers in enumerate(("1.26.1", "1.26.2", "2.0.0")):
        folder = tmp_path / f"packages{index}"
        package, about = folder / "polars", folder / f"polars-{numbers}.dist-info"
        package.mkdir(parents=True)
        about.mkdir()
        write(package, "__init__.py")
        write(about, "METADATA", f"Version: {numbers}")
    for folder in folders:
        write(
            folder, "train.py", "import sys", "sys.path.insert(0, open('packages').read().strip())", PROGRAM
        )
        write(folder, "helper.py", "import polars", HELPER.format(64))
        write(folder, "packages", f"{tmp_path}/packages0")
    (folders[1] / "packages").write_text(f"{tmp_path}/packages1")
    assert launched(tmp_path)[0] == 0
    (folders[1] / "packages").write_text(f"{tmp_path}/packages2")
    code, said = launched(tmp_path)
    assert code == 1
    assert "worker 0 has package polars 1.26, worker 1 has package polars 2.0." in said


def test_one_folder_may_change_between_two_starts(folders: list[Path]) -> None:
    """On one machine the files are the same; what differs there has been made so by the program."""
    write(folders[1], "helper.py", HELPER.format(64.0))
    to_folder = 'case "$TF_CONFIG" in *\'"index": 1\'*) cd m1;; *) cd m0;; esac'
    command = f"{to_folder}; exec {sys.executable} train.py"
    done = tfmuster(
        "launch", "-n", 2, "--distribute", "--", "sh", "-c", command, cwd=folders[0].parent, limit=150
    )
    assert done.returncode == 0, done.stdout + done.stderr
