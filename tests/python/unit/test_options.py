"""The table of the settings of a launch, and what is made from it."""

from __future__ import annotations

import inspect
import re
import runpy
from pathlib import Path
from typing import Any

import click
import pytest

import tfmuster
from tfmuster.cli import cli
from tfmuster.cli.launch import launch as verb
from tfmuster.cli.launch import settings_of
from tfmuster.errors import LaunchError
from tfmuster.launcher import launch
from tfmuster.launcher.engines.base import place_for
from tfmuster.launcher.job import Job, launch_options
from tfmuster.options.places import BACKENDS, PLACES, Local, Mpi, Place, Slurm, Ssh
from tfmuster.options.rows import FLAG, HOSTS, PATHS, STRINGS, VERIFICATION, Option, Settings
from tfmuster.options.table import ROWS, TABLE, Control, Plain, Waiting, text_of
from tfmuster.words import Face

ROOT = Path(__file__).parents[3]


def other_value(row: Option) -> Any:
    """Return a value that is not the default."""
    if row.kind is FLAG:
        return not row.default
    if row.kind in (PATHS, STRINGS):
        return ("a b", "--c")
    if row.kind.name in ("variables", "") and isinstance(row.default, dict):
        return {"a": "b=c"}
    if row.kind.least is not None:
        return 7 if row.kind.is_whole else 7.5
    if row.kind is VERIFICATION:
        return "never"
    return "a:1,b" if row.kind is HOSTS else "--x"


def parsed(words: list[str]) -> dict[str, Any]:
    # click keeps the help option of a command's first context.
    parent = click.Context(cli, **cli.context_settings)
    with verb.make_context("launch", [*words, "--", "train.py"], parent=parent) as context:
        return dict(context.params)


@pytest.mark.parametrize("settings", TABLE, ids=lambda settings: settings.__name__)
def test_the_command_line_says_the_same_as_an_object(settings: type[Settings]) -> None:
    changed = {row.name: other_value(row) for row in settings.public("shell")}
    whole = settings(**changed)
    options = parsed(whole.on_command_line())
    if issubclass(settings, Place):
        options = settings_of(PLACES, options)
        assert place_for(settings.backend, options) == whole
        assert settings.backend in ("local", "ssh") or place_for(settings.backend, {}) == settings()
    else:
        assert settings(**settings_of([settings], options)) == whole
    # Nothing is written of what is not set.
    assert settings().on_command_line() == []


def test_a_job_is_launched_again_by_its_options() -> None:
    settings = {
        **Plain(workers=3, seed=5, name="n").values(),
        **Control(ps=1, grace=2.5, env={"A": "b"}).values(),
    }
    job = Job(["train.py"], **settings)
    options = parsed(launch_options(job, None))
    assert Job(["train.py"], **settings_of([Plain, Control], options)) == job


@pytest.mark.parametrize(
    ("settings", "name", "value"),
    [
        (Plain, "workers", 0),
        (Plain, "workers", True),
        (Plain, "workers", 1.5),
        (Plain, "max_restarts", -1),
        (Plain, "seed", 2**31),
        (Plain, "name", 5),
        (Waiting, "quiet", 1),
        (Control, "ps", None),
        (Control, "chief", "yes"),
        (Control, "env", {"A": 1}),
        (Control, "env", ["A"]),
        (Control, "gpus_per_worker", -1),
        (Control, "grace", 0),
        (Control, "grace", "30"),
        (Control, "stall_timeout", -1),
        (Control, "start_timeout", float("inf")),
        (Ssh, "min_workers", 0),
        (Ssh, "min_workers", "2"),
        (Ssh, "min_workers", True),
        (Ssh, "rejoin_timeout", -1),
        (Ssh, "rejoin_timeout", float("nan")),
        (Ssh, "rejoin_timeout", "30"),
        (Ssh, "grow", 0),
        (Ssh, "grow", float("inf")),
        (Ssh, "files", 5),
        (Ssh, "hosts", 5),
        (Slurm, "requeue", None),
        (Mpi, "backend_options", [5]),
        (Local, "warm", "no"),
    ],
)
def test_a_wrong_value_is_refused_by_its_row(settings: type[Settings], name: str, value: Any) -> None:
    with pytest.raises(LaunchError) as caught:
        settings(**{name: value})
    assert caught.value.message == f"`{name}` must be {ROWS[name].kind.says}."
    assert caught.value.found == repr(value) and caught.value.fields["reason"] == "argument"


def test_an_argument_that_there_is_none_of() -> None:
    for wrong, found, fix in (
        (lambda: Ssh("a", copi=True), "no argument `copi`", "Did you mean 'copy'?"),
        (lambda: Ssh("a", "b"), "2 arguments without names", None),
        (lambda: Control(5), "1 arguments without names", None),
    ):
        with pytest.raises(LaunchError) as caught:
            wrong()  # type: ignore[no-untyped-call]
        assert (caught.value.found, caught.value.fix) == (found, fix)
    with pytest.raises(LaunchError, match="`on` must be an object such as Local"):
        launch("train.py", on="slurm")  # type: ignore[arg-type]
    with pytest.raises(LaunchError, match="`control` must be an object such as Control"):
        launch("train.py", control={"grace": 5})  # type: ignore[arg-type]


def test_a_setting_in_the_wrong_place_is_told_its_own() -> None:
    call: Any = launch
    for options, written in (
        ({"workers": 2, "hosts": "a", "copy": True}, "launch(script, workers=2, on=Ssh('a', copy=True))"),
        ({"grace": 5}, "launch(script, control=Control(grace=5))"),
        ({"backend": "slurm", "backend_options": ["-x"]}, "launch(script, on=Slurm('-x'))"),
    ):
        with pytest.raises(LaunchError) as caught:
            call("train.py", **options)
        assert caught.value.fix == f"Write {written}."
    with pytest.raises(LaunchError) as caught:
        call("train.py", worker=2)
    assert caught.value.fix == "Did you mean 'workers'?"


def test_an_object_is_written_as_the_call_that_makes_it() -> None:
    assert repr(Mpi(["a:2", "b"], "--map-by node", copy=True)) == "Mpi('a:2,b', '--map-by node', copy=True)"
    assert repr(Slurm()) == "Slurm()"
    assert str(inspect.signature(Slurm)).startswith("(*backend_options, copy=False, files=()")
    assert str(inspect.signature(Ssh)).startswith("(hosts=None, *, copy=False")
    with pytest.raises(AttributeError):
        Slurm().copy = True  # type: ignore[misc]


@pytest.mark.parametrize("face", ["shell", "python", "r"])
def test_texts_name_other_settings_as_the_face_spells_them(face: Face) -> None:
    for row in ROWS.values():
        if face in row.faces:
            text = text_of(row, face)
            assert not re.search(r"[{}]", text) and (face == "shell" or "--m" not in text), text
    assert {"shell": "--max-restarts", "python": "``max_restarts``", "r": "`max_restarts`"}[face] in text_of(
        ROWS["warm"], face
    )


def test_places_are_public_and_documented() -> None:
    for place in PLACES:
        assert getattr(tfmuster, place.backend.capitalize()) is place
        assert all(f"\n{row.name} : " in (place.__doc__ or "") for row in place.public("python"))
    plain = [row.name for settings in (Plain, Waiting) for row in settings.public("python")]
    assert set(inspect.signature(launch).parameters) == {"script", "args", "on", "control", *plain}
    assert len(BACKENDS) == len(set(BACKENDS)) == len(PLACES)


def test_the_functions_of_r_are_made_from_the_table() -> None:
    script = runpy.run_path(str(ROOT / "scripts" / "write_r_options.py"))
    for path, text in script["files"]().items():
        assert path.read_text(encoding="utf-8") == text, "run `make options`"
    kinds = (ROOT / "R" / "argument_kinds.R").read_text(encoding="utf-8")
    for row in ROWS.values():
        if row.kind.least is not None:
            [says] = re.findall(rf"^  {row.kind.name} = list\(says = \"(.*?)\",", kinds, re.MULTILINE)
            assert says == row.kind.says, row.name
