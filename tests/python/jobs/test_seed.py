"""The random number generators of all workers have one seed, before the program's first line."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

import numpy as np
import pytest

from support.launching import only_run, read_json, tfmuster, write
from support.r import NEEDS_R
from tfmuster.errors import LaunchError
from tfmuster.launcher import launch

pytestmark = pytest.mark.fresh

DRAWS = (
    "import random, subprocess, sys",
    "drawn = [random.random()]",
    "assert 'numpy' not in sys.modules, 'NumPy was imported only to seed it'",
    "import json, os",
    "import numpy as np",
    "drawn += [hash('tfmuster'), np.random.rand(), *(np.random.default_rng().random() for _ in range(2))]",
    "drawn += [random.Random().random(), np.random.RandomState().rand()]",
    "child = subprocess.check_output([sys.executable, '-c', 'import random; print(random.random())'])",
    "print(json.dumps([drawn, float(child)]), flush=True)",
    "if os.environ['TFMUSTER_RESTART'] == '0' and json.loads(os.environ['TF_CONFIG'])['task']['index']:",
    "    raise SystemExit(4)",
)


def drawn(folder: Path) -> list[tuple[list[float], float]]:
    lines = [line for path in sorted(folder.rglob("worker-*.log")) for line in path.read_text().splitlines()]
    return [json.loads(line) for line in lines if line.startswith("[")]


def test_all_workers_draw_the_same_after_a_restart_too_but_not_their_children(tmp_path: Path) -> None:
    write(tmp_path, "train.py", *DRAWS)
    done = tfmuster("launch", "-n", 2, "--seed", 5, "--max-restarts", 1, "train.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    numbers = drawn(tmp_path)
    assert len(numbers) >= 3  # the first worker may have been ended before its first attempt printed
    assert "TfmusterWarning" not in done.stdout + done.stderr
    own, children = zip(*numbers, strict=True)
    assert all(values == own[0] for values in own)
    assert own[0][::2][:2] == [random.Random(5).random(), np.random.RandomState(5).rand()]
    assert len(set(own[0])) == 7
    assert len(set(children)) == len(children)
    assert read_json(only_run(tmp_path) / "run.json")["seed"] == 5


def test_the_launcher_draws_a_seed_for_each_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    def draw() -> float:
        import random

        return random.random()

    seeds = []
    for name in ("first", "second"):
        values = launch(draw, workers=2, run_dir=name, quiet=True)
        assert values["worker 0"] == values["worker 1"]
        seeds.append(read_json(tmp_path / name / "run.json")["seed"])
        assert values["worker 0"] == random.Random(seeds[-1]).random()
    assert seeds[0] != seeds[1]
    monkeypatch.setenv("TFMUSTER_SEED", "7")
    assert launch(draw, workers=1, run_dir="third", quiet=True)["worker 0"] == random.Random(7).random()


def test_independent_workers_draw_their_own_numbers_the_same_at_each_launch(tmp_path: Path) -> None:
    write(
        tmp_path,
        "train.py",
        "import json, random",
        "import numpy as np",
        "draws = [random.random(), np.random.rand(), np.random.default_rng().random()]",
        "print(json.dumps([draws, 0]), flush=True)",
    )
    launches = []
    for name, options in {"first": (3, "--independent"), "second": (3, "--independent"), "one": (1,)}.items():
        done = tfmuster("launch", "--seed", 5, "--run-dir", name, "-n", *options, "train.py", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        launches.append([draws for draws, _ in drawn(tmp_path / name)])
    first, second, one = launches
    assert first == second
    assert len({number for draws in first for number in draws}) == 9
    assert first[:1] == one


@pytest.mark.parametrize("seed", [-1, 2**31, 1.5, True])
def test_a_seed_that_is_none_is_refused(seed: object, tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match="`seed` must be a whole number from 0 to 2147483647") as caught:
        launch(sys.executable, seed=seed, run_dir=tmp_path / "run")  # type: ignore[arg-type]
    assert caught.value.fields["reason"] == "argument"


@NEEDS_R
@pytest.mark.parametrize("command", [[], ["--", "Rscript", "--vanilla"]], ids=["script", "vanilla"])
def test_r_draws_the_same_rows_on_all_workers(tmp_path: Path, command: list[str]) -> None:
    write(
        tmp_path,
        "train.R",
        "rows <- which(runif(20) < 0.8)",
        "rscript <- file.path(R.home('bin'), 'Rscript')",
        "hashes <- reticulate::py_eval('hash(\"tfmuster\")')",
        "child <- system2(rscript, c('-e', shQuote('cat(runif(1))')), stdout = TRUE)",
        "cat(paste0('[[', toString(c(rows, hashes)), '], ', child, ']'), '\\n')",
        "stopifnot(!nzchar(Sys.getenv('R_TESTS')))",
    )
    done = tfmuster("launch", "-n", 2, "--seed", 5, *command, "train.R", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (first, one), (second, other) = drawn(tmp_path)
    assert first == second
    assert 11 <= len(first) < 21
    assert one != other


@NEEDS_R
def test_a_seed_of_the_users_own_profile_wins(tmp_path: Path) -> None:
    write(tmp_path, ".Rprofile", "set.seed(7)")
    write(tmp_path, "train.R", "cat('[', runif(1), ']\\n')", "set.seed(7); cat('[', runif(1), ']\\n')")
    done = tfmuster("launch", "-n", 1, "--seed", 5, "train.R", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert drawn(tmp_path) == [drawn(tmp_path)[0]] * 2
