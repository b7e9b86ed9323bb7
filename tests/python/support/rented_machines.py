"""The least that a command for rented machines needs to know, and clouds that rent nothing."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

URL = "https://example.org/tfmuster.tar.gz"
GCE: dict[str, Any] = {"name": "digits", "workers": 3, "source": URL, "zone": "europe-west2-a"}
EC2: dict[str, Any] = {"name": "digits", "workers": 3, "source": URL}
SKYPILOT: dict[str, Any] = {**EC2, "command": ("train.py", "it's", "$HOME")}

WORDS = ["zone", "project", "network", "machine_type", "image", "image_project", "accelerator"]

#: The begin of a program that writes down how it was called.
RECORD = f"""#!{sys.executable} -IS
import json, os, sys
from pathlib import Path

with open(os.environ["RECORD"], "a") as file:
    file.write(json.dumps([Path(sys.argv[0]).name, *sys.argv[1:]]) + "\\n")
words = sys.argv[1:]
"""
#: What a cloud has is in a file: its things by their names, each with its mark. The call whose number is in
#: FAIL fails: before it has done anything, or with "after", when it has, so that only its answer is lost.
_CLOUD = """
import atexit

state = Path(os.environ["CLOUD"])
has = json.loads(state.read_text()) if state.exists() else {}
fail, _, when = os.environ.get("FAIL", "").partition(" ")
fails = fail and len(Path(os.environ["RECORD"]).read_text().splitlines()) == int(fail)
if fails and when == "before":
    sys.exit(9)

def done(*lines):
    state.write_text(json.dumps(has))
    if fails:
        sys.exit(9)
    print(*lines, sep="\\n")
    sys.exit(0)

def value(begin, by="="):
    return next((word.split(by, 1)[1] for word in words if word.startswith(begin + by)), "")
"""
GCLOUD = (
    RECORD
    + _CLOUD
    + """
kind, verb = words[1:3]
if kind in ("ssh", "scp"):
    done()
names = [word for word in words[3:] if not word.startswith("-")]
if verb == "create":
    mark = value("--labels").partition("=")[2] if kind == "instances" else value("--description")
    if any(name in has for name in names):
        sys.exit("it exists")
    has |= {f"{kind} {name}": mark for name in names}
elif verb == "list":
    mark = value("--filter").partition("=")[2]
    done(*(name.split()[1] for name, of in has.items() if of == mark and name.split()[0] == kind))
elif verb == "delete":
    if kind != "instances" and any(name.startswith("instances") for name in has):
        sys.exit("it is used")
    for name in names:
        del has[f"{kind} {name}"]
elif verb == "describe":
    done("10.0.0." + names[-1][-1])
done()
"""
)
AWS = (
    RECORD
    + _CLOUD
    + """
verb = words[1]
tagged = value("--tag-specifications").rpartition("Value=")[2].rstrip("]}")
filtered = next((word.split("Values=")[1] for word in words if word.startswith("Name=tag:tfmuster")), None)
kind = "i-" if "instance" in verb else "sg-"
if verb == "create-security-group":
    has["sg-1"] = tagged
    done("sg-1")
elif verb == "run-instances":
    has |= {f"i-{number + 1}": tagged for number in range(int(value("--count")))}
    done("\\t".join(name for name in has if name.startswith("i-")))
elif filtered:
    done("\\t".join(name for name, mark in has.items() if mark == filtered and name.startswith(kind)))
elif verb == "describe-instances":
    done(*(f"10.0.0.{name[2:]}\\t203.0.113.{name[2:]}" for name in words if name.startswith("i-")))
elif verb == "terminate-instances":
    has = {name: mark for name, mark in has.items() if name not in words}
elif verb == "delete-security-group":
    if any(name.startswith("i-") for name in has):
        sys.exit("it is used")
    del has[value("--group-id")]
done()
"""
)


def plant(folder: Path, **programs: str) -> Path:
    """A folder with these programs, and a few real ones."""
    found = folder / "bin"
    found.mkdir(exist_ok=True)
    for name, body in programs.items():
        path = found / name.replace("_", "-")
        path.write_text(body)
        path.chmod(0o755)
    for name in ("bash", "cat", "rm", "touch", "mkdir", "tar", "gzip", "ln"):
        if not (found / name).exists():
            (found / name).symlink_to(str(shutil.which(name)))
    return found


@dataclass
class Printed:
    """A printed script in a folder, where it finds clouds that rent nothing."""

    text: str
    folder: Path

    def run(self, *words: str, fail: str = "", **programs: str) -> subprocess.CompletedProcess[str]:
        """Run it with some words. `fail` is the number of the call that fails, and "before" or "after"."""
        found = plant(self.folder, **{"gcloud": GCLOUD, "aws": AWS, "ssh": RECORD, "scp": RECORD, **programs})
        self._record.unlink(missing_ok=True)
        done = subprocess.run(
            [found / "bash", "-c", self.text, "rent.sh", *words],
            cwd=self.folder,
            env={
                "PATH": str(found),
                "RECORD": str(self._record),
                "CLOUD": str(self._cloud),
                "FAIL": fail,
            },
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert not list(self.folder.rglob("pwned"))
        return done

    def calls(self, *words: str, **programs: str) -> list[list[str]]:
        """The calls that it makes if nothing fails."""
        done = self.run(*words, **programs)
        assert (done.returncode, done.stderr) == (0, "")
        return self.recorded()

    def recorded(self) -> list[list[str]]:
        """The calls that were made last."""
        lines = self._record.read_text().splitlines() if self._record.exists() else []
        return [json.loads(line) for line in lines]

    def rented(self) -> set[str]:
        """What the clouds have, and what may cost money."""
        return set(json.loads(self._cloud.read_text())) if self._cloud.exists() else set()

    @property
    def _record(self) -> Path:
        return self.folder / "record"

    @property
    def _cloud(self) -> Path:
        return self.folder / "cloud.json"
