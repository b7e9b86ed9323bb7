"""``make lint`` refuses conflict markers, files that git should not have, and paths in pages."""

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path

from support.paths import ROOT

spec = importlib.util.spec_from_file_location("lint_files", ROOT / "scripts" / "lint_files.py")
assert spec is not None and spec.loader is not None
lint_files = importlib.util.module_from_spec(spec)
spec.loader.exec_module(lint_files)


def test_markers_ignored_files_and_paths_are_found(tmp_path: Path) -> None:
    ours, theirs = "<" * 7 + " HEAD\n", ">" * 7 + " 6402487 (tests: train)\n"
    files = {
        "vignettes/a.Rmd": f"# A\n\n{ours}one\n{'=' * 7}\ntwo\n{theirs}",
        "docs/b.md": f"Heading\n{'=' * 7}\n\nIn a line, {theirs}",
        "docs/gallery/c.txt": "Found 3 files\nsaved: /tmp/tmp1b2c/model.keras\n",
        "docs/d.md": "See https://host/tmp/x, tests/home/x, /home/me/digits and `~/tmp/x`.\n",
        "python/e.py": "FOLDER = '/tmp'\n",
        "man/Rplots.pdf": "%PDF",
        "picture.png": f"\0\n{ours}",
        ".gitignore": "Rplots.pdf\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    for command in (["init", "-q"], ["add", "-f", "."]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True, timeout=20)
    (tmp_path / "not-added.md").write_text(ours)
    assert list(lint_files.findings(tmp_path)) == [
        "docs/gallery/c.txt:2: a path of one machine: /tmp/tmp1b2c/model.keras",
        "vignettes/a.Rmd:3: a marker of a merge conflict",
        "man/Rplots.pdf: .gitignore names it, and git tracks it: git rm --cached man/Rplots.pdf",
    ]
