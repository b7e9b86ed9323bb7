"""``make lint`` refuses conflict markers in any file, and files that git should not have."""

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path

from support.paths import ROOT

spec = importlib.util.spec_from_file_location("lint_files", ROOT / "scripts" / "lint_files.py")
assert spec is not None and spec.loader is not None
lint_files = importlib.util.module_from_spec(spec)
spec.loader.exec_module(lint_files)


def test_conflict_markers_and_ignored_files(tmp_path: Path) -> None:
    ours, theirs = "<" * 7 + " HEAD\n", ">" * 7 + " 6402487 (tests: train)\n"
    files = {
        "vignettes/a.Rmd": f"# A\n\n{ours}one\n{'=' * 7}\ntwo\n{theirs}",
        "docs/b.md": f"Heading\n{'=' * 7}\n\nIn a line, {theirs}",
        "man/Rplots.pdf": "%PDF",
        "picture.png": f"\0\n{ours}",
        ".gitignore": "Rplots.pdf\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    for command in (["init", "-q"], ["add", "-f", "."]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True, timeout=20)
    (tmp_path / "not-added.md").write_text(ours)
    assert list(lint_files.findings(tmp_path)) == [
        "vignettes/a.Rmd:3: a marker of a merge conflict",
        "man/Rplots.pdf: .gitignore names it, and git tracks it: git rm --cached man/Rplots.pdf",
    ]
