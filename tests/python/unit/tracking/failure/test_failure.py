"""The first failure of a job: as JSON, as an error, and whether a restart can help."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tfmuster.tracking.failure.failure import Failure
from tfmuster.tracking.record.recording import read_error


@pytest.mark.parametrize(
    ("code", "error", "is_permanent"),
    [
        (1, "ValueError: x", False),
        (2, "", True),
        (3, "tfmuster.errors.RendezvousError: worker 1 is missing.", False),
        (1, "tfmuster.errors.CheckpointError: The disk is full.", False),
        (1, "tfmuster.errors.ModelError: No such model.", True),
        (-9, "", False),
        (None, "", False),
    ],
)
def test_which_failures_are_for_good(code: int | None, error: str, is_permanent: bool) -> None:
    note = {"error": error}
    failure = Failure.of("worker 0", host="h", code=code, time=0.0, note=note, last_lines=(), log="")
    assert failure.is_permanent == is_permanent


@pytest.mark.parametrize(
    "note",
    [
        {"error": 5},
        {"traceback": ["x"], "error": None},
        *[{"time": time} for time in (None, "soon", float("nan"), float("inf"), 1e300, -1e300, [])],
    ],
)
def test_what_another_machine_sends_may_be_anything(note: dict[str, object]) -> None:
    failure = Failure.of("worker 1", host="node", code=1, time=1.0, note=note, last_lines=(), log="")
    assert failure.to_dict()["time"] == "1970-01-01T00:00:01.000+00:00"
    assert (failure.error, failure.traceback) == ("", "")
    assert failure.cause_time == 1.0 and failure.headline() == "worker 1 on node failed with exit code 1."


@pytest.mark.parametrize(
    ("more", "found", "fix"),
    [
        ("\n  found: 'x'\n  to do: choose one", "'x'\n\nFull output: w.log", "choose one"),
        ("\n  found: 'x'", "'x'\n\nFull output: w.log", None),
        ("\n  to do: choose one", "Full output: w.log", "choose one"),
        ("", "Full output: w.log", None),
    ],
)
def test_the_parts_of_a_workers_own_error_are_those_of_the_jobs(
    more: str, found: str, fix: str | None
) -> None:
    note = {"error": f"tfmuster.errors.ModelError: No such model.{more}"}
    failure = Failure.of("worker 0", host="h", code=1, time=0.0, note=note, last_lines=(), log="w.log")
    error = failure.to_error()
    assert (error.found, error.fix) == (found, fix)
    assert "found: found" not in str(error)


def test_failure_is_json_and_an_error() -> None:
    failure = Failure.of(
        "worker 1",
        host="node",
        code=-9,
        time=0.0,
        note={},
        last_lines=("a", "b"),
        log="runs/x/logs/worker-1.log",
    )
    assert failure.to_dict()["time"] == "1970-01-01T00:00:00.000+00:00"
    assert json.loads(json.dumps(failure.to_dict()))["signal"] == "SIGKILL"
    error = failure.to_error()
    assert (error.kind, error.exit_code) == ("worker", 1)
    assert str(error).splitlines()[0] == "worker 1 on node was ended by SIGKILL."


@pytest.mark.parametrize(
    "error",
    [
        "tensorflow.python.framework.errors_impl.UnavailableError: Graph execution error:",
        "tfmuster.errors.WorkerError: worker 1 (host h, pid 9) disappeared: its process ended or was killed",
    ],
)
def test_a_worker_that_misses_a_peer_is_not_the_cause(error: str) -> None:
    # The launcher may notice the end of the peer later than the other worker does.
    killed = Failure.of("worker 1", host="h", code=-9, time=10.5, note={}, last_lines=(), log="")
    note = {"error": error, "time": 10.0}
    misses = Failure.of("worker 0", host="h", code=1, time=10.2, note=note, last_lines=(), log="")
    assert min(killed, misses, key=lambda failure: failure.cause_time) is killed


FRAMES = [f'  File "train.py", line {number}, in step' for number in range(30)]


@pytest.mark.parametrize("before", [0, 12, 40])
@pytest.mark.parametrize(
    "said",
    [
        ["ValueError: row 17 is broken"],
        [
            "tfmuster.errors.DataError: Every row must be readable.",
            "  found: no picture (a.png)",
            "  to do: x",
        ],
        ["InvalidArgumentError: Graph execution error:", "", *(f"node {n}" for n in range(25))],
    ],
)
def test_an_error_is_shown_once(before: int, said: list[str]) -> None:
    # Keras removes its frames from what Python prints, so this is not what the traceback module has written.
    printed = ["Epoch 1/2"] * before + ["Traceback (most recent call last):", *FRAMES[:9], *said, "bye"]
    written = "\n".join(["Traceback (most recent call last):", *FRAMES, *said, ""])
    note = {"error": "\n".join(said), "traceback": written}
    failure = Failure.of(
        "worker 1", host="h", code=1, time=0.0, note=note, last_lines=tuple(printed[-20:]), log="x.log"
    )
    lines = str(failure).splitlines()
    in_graph = said[0].endswith("Graph execution error:")
    assert sum(said[0].rpartition("Error: ")[2] in line for line in lines) == (
        1 if in_graph or said[0].startswith("tfmuster.") else 2  # in the headline, and in the traceback
    )
    if in_graph:
        assert lines[0].endswith("InvalidArgumentError: node 0")
    assert lines.count(said[-1]) == 1
    assert "  bye" in lines
    shown = "\n".join(lines[: lines.index("  bye")])
    assert "train.py" not in shown


def test_what_tensorflow_says_when_it_starts_is_not_shown() -> None:
    noise = [
        "WARNING: All log messages before absl::InitializeLog() is called are written to STDERR",
        "I0000 00:00:1795447393.387994   20663 port.cc:153] oneDNN custom operations are on. You may see",
        "2026-11-23 15:23:13.387994: I tensorflow/core/platform/cpu_feature_guard.cc:210] This binary is",
        "To enable the following instructions: AVX2 FMA, in other operations, rebuild TensorFlow with",
    ]
    kept = [
        "W0000 00:00:1795447393.387994   20663 gpu.cc:1] Cannot dlopen some GPU libraries.",
        "Epoch 1/2",
    ]
    said = Failure.of(
        "worker 1",
        host="h",
        code=1,
        time=0.0,
        note={"error": "tfmuster.errors.DataError: No."},
        last_lines=tuple([*noise, *kept]),
        log="x.log",
    )
    lines = str(said).splitlines()
    assert [line[2:] for line in lines if line[2:] in noise + kept] == kept
    only_noise = Failure.of(
        "worker 1", host="h", code=1, time=0.0, note={}, last_lines=tuple(noise), log="x.log"
    )
    assert "Its last lines" not in str(only_noise)
    # They are in the run directory all the same.
    assert only_noise.last_lines == tuple(noise)


def test_what_r_printed_of_an_error_is_left_out_and_the_lines_before_it_stay() -> None:
    note = {"error": "Error in `g()`: no luck", "traceback": "Backtrace:\n 1. global f()"}
    printed = ("step 1", "Error in `g()`: no luck", "Calls: f -> g")
    failure = Failure.of("worker 0", host="h", code=1, time=0.0, note=note, last_lines=printed, log="x.log")
    assert str(failure).splitlines() == [
        "worker 0 on h failed with exit code 1: Error in `g()`: no luck",
        "",
        "Its last lines:",
        "  step 1",
        "",
        "Backtrace:",
        " 1. global f()",
        "",
        "Full output: x.log",
    ]
    assert failure.details(shown=True) == []
    assert failure.ending() == "worker 0 on h failed with exit code 1."


def test_what_to_do_is_data(tmp_path: Path) -> None:
    error = "tfmuster.errors.LaunchError: Too few.\n  found: 1\n  to do: Start more (-n 4)."
    hints = [{"option": "workers", "value": 4}]
    note = {"error": error, "fix": "Start more (-n 4).", "hints": hints}
    failure = Failure.of("worker 0", host="h", code=2, time=0.0, note=note, last_lines=(), log="x.log")
    (tmp_path / "error.json").write_text(json.dumps(failure.to_dict()))
    said = read_error(tmp_path)
    assert (said["fix"], said["hints"]) == ("Start more (-n 4).", hints)
    raised = Failure.from_dict(said).to_error()
    assert (raised.fix, raised.fields["hints"]) == ("Start more (-n 4).", (hints[0],))
    assert str(raised).count("Start more") == 1


def test_what_is_known_to_help_is_data() -> None:
    note = {"error": "ModuleNotFoundError: No module named 'polars'"}
    failure = Failure.of("worker 1", host="far", code=1, time=0.0, note=note, last_lines=(), log="x.log")
    assert failure.fix is not None and failure.fix.startswith("Install polars for ")
    assert failure.hints == ({"option": "remote_python", "value": None},)
    assert str(failure.to_error()).count("Install polars") == 1


def test_hints_of_another_machine_may_be_anything() -> None:
    odd = [
        "x",
        {"option": 5},
        {"option": "a b"},
        {"option": "workers", "value": {}},
        {"option": "ps", "value": "\x1b"},
    ]
    note = {"error": "", "fix": "\x1b[2JGo.", "hints": [*odd, {"option": "env"}]}
    failure = Failure.of("worker 1", host="h", code=1, time=0.0, note=note, last_lines=(), log="x.log")
    assert failure.hints == ({"option": "env", "value": None},)
    assert failure.fix is not None and failure.fix.isprintable()
    assert (
        Failure.of("worker 1", host="h", code=1, time=0.0, note={"hints": 5}, last_lines=(), log="").hints
        == ()
    )


def test_classes_and_condition_of_r_are_data(tmp_path: Path) -> None:
    note = {"error": "Error in f() : no", "classes": ["mine", "error"], "condition": "580a"}
    failure = Failure.of("worker 0", host="h", code=1, time=0.0, note=note, last_lines=(), log="x.log")
    (tmp_path / "error.json").write_text(json.dumps(failure.to_dict()))
    read = Failure.from_dict(read_error(tmp_path))
    assert (read.classes, read.condition) == (("mine", "error"), "580a")
    odd = {"error": "", "classes": ["\x1b[2Ja", 5, None], "condition": ["580a"]}
    failure = Failure.of("worker 0", host="h", code=1, time=0.0, note=odd, last_lines=(), log="x.log")
    assert failure.condition is None
    (name,) = failure.classes
    assert name.isprintable()
    nothing = Failure.of("worker 0", host="h", code=1, time=0.0, note={}, last_lines=(), log="x.log")
    assert (nothing.classes, nothing.condition) == ((), None)
