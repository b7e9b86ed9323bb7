"""Say how the user stops or resumes a run."""

from __future__ import annotations

import os

from ..words import Code, r_text


def stop_text(run: str | os.PathLike[str], *, save: bool = False) -> str:
    """Return what ends a run, as its user writes it; with `save`, after a checkpoint."""
    python, r, shell = (", save=True", ", save = TRUE", "--save ") if save else ("", "", "")
    return _text(run, "stop", python.lstrip(", "), r, shell)


def resume_text(run: str | os.PathLike[str]) -> str:
    """Return what resumes a run, as its user writes it."""
    return _text(run, "resume")


def _text(run: str | os.PathLike[str], verb: str, python: str = "", r: str = "", shell: str = "") -> str:
    name = os.fspath(run)
    return str(
        Code(
            f"{verb}({python}) of the run {name}",
            f"run_{verb}({r_text(name)}{r})",
            f"tfmuster runs {verb} {shell}{name}",
        )
    )
