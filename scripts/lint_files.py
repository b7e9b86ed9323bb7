"""Check the files that git tracks: no conflict markers in any text, and nothing that .gitignore names.

In what is published, no path of the machine that built it. ``make lint`` runs this; other checks read a
language each, and so not every file.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

#: The lines that git leaves around both sides of a conflict; "=======" also underlines headings.
MARKER = re.compile(rb"^(?:<{7}|>{7}|\|{7})(?: |$)", re.MULTILINE)
#: What the site and R's manual are made of, pictures and recorded outputs included.
PUBLISHED = re.compile(r"docs/|vignettes/|man/|[A-Z]+\.md$")
#: A folder of somebody's machine. The pages' own user is called me.
PATH = re.compile(rb"(?<![\w.~}/-])/(?:srv|tmp|root|home/(?!me\b))[/\w.-]*")


def tracked(folder: Path, *options: str) -> list[str]:
    """Return the tracked files of a folder that are there, relative to it."""
    listed = subprocess.run(["git", "ls-files", "-z", *options], cwd=folder, capture_output=True, check=True)
    names = listed.stdout.decode().split("\0")
    return sorted(name for name in names if name and (folder / name).is_file())


def findings(folder: Path) -> Iterator[str]:
    """Yield what is wrong with the files of a folder."""
    for name in tracked(folder):
        data = (folder / name).read_bytes()
        if b"\0" not in data and (marker := MARKER.search(data)):
            line = data.count(b"\n", 0, marker.start()) + 1
            yield f"{name}:{line}: a marker of a merge conflict"
        if b"\0" not in data and PUBLISHED.match(name) and (path := PATH.search(data)):
            line = data.count(b"\n", 0, path.start()) + 1
            yield f"{name}:{line}: a path of one machine: {path[0].decode()}"
    for name in tracked(folder, "--cached", "--ignored", "--exclude-standard"):
        yield f"{name}: .gitignore names it, and git tracks it: git rm --cached {name}"


def main() -> int:
    """Print what is wrong. Return 1 if anything is."""
    found = list(findings(Path(__file__).resolve().parents[1]))
    print("\n".join(found) or "The tracked files: nothing found.")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
