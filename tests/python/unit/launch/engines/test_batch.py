"""What all batch systems share."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from tfmuster.errors import LaunchError
from tfmuster.launch.engines.base import Where
from tfmuster.launch.engines.batch import BatchEngine, BatchRequest
from tfmuster.launch.engines.registry import BACKENDS, engine_for
from tfmuster.launch.job import Job

for name in BACKENDS:
    import_module(f"tfmuster.launch.engines.{name}")
SYSTEMS = sorted(system.NAME for system in BatchEngine.__subclasses__())


@pytest.mark.parametrize(
    ("name", "safe"),
    [("train", "train"), ("1st try: $(x)/é,b", "run1st_try_x_b"), ("", "run"), ("a" * 200, "a" * 15)],
)
def test_names_are_made_safe(name: str, safe: str) -> None:
    assert BatchRequest(name, 1, "/", None).safe_name(15) == safe[:15]


@pytest.mark.parametrize("name", SYSTEMS)
def test_hosts_are_refused(name: str) -> None:
    with pytest.raises(LaunchError, match="chooses the nodes"):
        engine_for(Where(backend=name, hosts="node1"))


@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.parametrize("option", ["no option", "-l a=b\nsecond line"])
def test_an_option_is_one_line_and_begins_as_one(name: str, option: str) -> None:
    with pytest.raises(LaunchError, match="is one line without control characters, and begins with -"):
        engine_for(Where(backend=name, backend_options=(option,)))


@pytest.mark.parametrize("name", SYSTEMS)
def test_the_inner_launcher_gets_all_but_the_options_of_the_batch_system(name: str) -> None:
    where = Where(backend=name, backend_options=("-x",), files=("a b",), remote_python="/opt/python")
    script = engine_for(where).script(Job(["train.py", "it's"], workers=1))  # type: ignore[attr-defined]
    inner = script[script.index("/opt/python -m tfmuster launch") :]
    assert f"--backend={name} '--file=a b' --remote-python=/opt/python -- train.py 'it'\"'\"'s'" in inner
    assert "-x" not in inner


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_batch_job_that_is_not_recognized_submits_no_other(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = engine_for(Where(backend=name, backend_options=())).script(Job(["true"], workers=1))  # type: ignore[attr-defined]
    variable, _, value = script.partition("export ")[2].partition("\n")[0].partition("=")
    monkeypatch.setenv(variable, value)
    with pytest.raises(LaunchError, match="must find the variables of") as refused:
        engine_for(Where(backend=name)).submit(Job(["true"], workers=1, run_dir=tmp_path / "run"))
    assert refused.value.fields["reason"] == "batch"
    assert not (tmp_path / "run").exists()
