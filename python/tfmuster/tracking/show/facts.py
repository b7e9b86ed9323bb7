"""Say what a run is remembered by: how it was launched, its seed, batch size, model, hardware and commit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...options.hints import Hint, Launch
from ...options.table import ROWS
from ...words import face
from ..live.machines import read_machines
from ..record.hidden_values import HIDDEN
from ..record.layout import CALL
from ..run import Run

#: Variables that R's `launch()` sets itself.
_OF_R = ("R_LIBS", "R_TESTS")
#: How many tasks on equal machines are named.
_MOST_TASKS = 4


def launch_line(run: Run, *, with_env: bool = True) -> str | None:
    """Return what launches a run again, as this process's face writes it; None for a function.

    Without `with_env`, the values of environment variables are hidden.
    """
    info = run.info()
    launch, command = dict(info.get("launch", {})), info.get("command")
    if not launch or not command or (run.path / CALL).is_dir():
        return None
    env = launch.get("env")
    if isinstance(env, dict):
        in_r = face() == "r"
        shown = {name: text for name, text in env.items() if not (in_r and name in _OF_R)}
        launch["env"] = shown if with_env else dict.fromkeys(shown, HIDDEN)
    has_hosts = any(name in launch for name in ("hosts", "hostfile", "hosts_from"))
    if launch.get("backend") == ("ssh" if has_hosts else "local"):
        del launch["backend"]
    settings = tuple(
        Hint(name, value) for name, value in launch.items() if name in (*ROWS, "backend") and value != {}
    )
    script, *arguments = command
    return str(Launch(settings, script, args=tuple(arguments)))


def hardware(run: Run) -> dict[str, str]:
    """Return the hardware of each task that has recorded it."""
    texts = {}
    for task, machine in read_machines(run.path).items():
        cores, gpus = machine["cores"], machine["gpus"]
        parts = [f"{cores} core{'' if cores == 1 else 's'}", f"{machine['memory'] / 2**30:.1f} GB of memory"]
        parts += [f"{gpus.count(gpu)} GPU {gpu}" for gpu in dict.fromkeys(gpus)] or ["no GPU"]
        texts[task] = f"{machine['host']}: {', '.join(parts)}"
    return texts


def facts(run: Run, *, with_env: bool = True) -> dict[str, str]:
    """Return the facts by label, as far as they are known. For `with_env` see `launch_line`."""
    info, line = run.info(), launch_line(run, with_env=with_env)
    if line is not None and HIDDEN in line:
        line += f"\n  {HIDDEN} stands for a value that is not shown"
    seed, git = info.get("seed"), info.get("git")
    known = {
        "run again": line,
        "seed": None if seed is None else f"{seed}, of the job",
        **notes_by_subject(run),
        "hardware": "\n  ".join(f"{tasks} on {text}" for text, tasks in _by_machine(hardware(run)).items()),
        "git commit": f"{git['commit']}{', with local changes' if git['changed'] else ''}" if git else None,
    }
    return {label: text for label, text in known.items() if text}


def _by_machine(texts: Mapping[str, str]) -> dict[str, str]:
    """Return the tasks of each machine."""
    tasks: dict[str, list[str]] = {}
    for task, text in texts.items():
        tasks.setdefault(text, []).append(task)
    return {
        text: ", ".join(names[:_MOST_TASKS])
        + (f" and {len(names) - _MOST_TASKS} more" if len(names) > _MOST_TASKS else "")
        for text, names in tasks.items()
    }


def notes_by_subject(run: Run) -> dict[str, str]:
    """Return what was decided for the program: texts by what they are about, such as ``input``."""
    texts: dict[str, dict[str, None]] = {}
    for note in run.notes():
        # After a restart the chief writes the same again.
        texts.setdefault(note["about"], {})[note["text"]] = None
    return {about: "; ".join(unique) for about, unique in texts.items()}


def last_noted(run: Run, about: str) -> dict[str, Any]:
    """Return the last note about a subject; empty without one."""
    return next((note for note in reversed(run.notes()) if note["about"] == about), {})
