"""Compile tfmuster's C files into a wheel, for users without a compiler: a hook of hatchling.

    HATCH_BUILD_HOOK_ENABLE_CUSTOM=true python -m build

It is off by default, because it needs Zig (100 MB, from PyPI), whose compiler makes libraries for other
processors and for older systems than the one it runs on. The wheel stays one for all systems: where none of
its libraries fits, tfmuster compiles its own, or does without.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "python"))

from tfmuster.system.compiled import FLAGS, GLIBC, LIBRARIES, PROCESSORS, prebuilt  # noqa: E402


class CompileLibraries(BuildHookInterface):  # type: ignore[misc]
    """Adds a library for each C file and processor."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile them, unless the installation is editable."""
        if version == "editable":
            return
        self._folder = tempfile.TemporaryDirectory()
        for source in sorted((ROOT / "python" / "tfmuster").rglob("*.c")):
            for processor in PROCESSORS:
                to = prebuilt(source, processor)
                made = Path(self._folder.name, to.name)
                target = f"{processor}-linux-gnu.{'.'.join(map(str, GLIBC))}"
                compiler = [sys.executable, "-m", "ziglang", "cc", "-target", target, "-s", *FLAGS]
                subprocess.run([*compiler, "-o", str(made), str(source), *LIBRARIES], check=True)
                build_data["force_include"][str(made)] = str(to.relative_to(ROOT / "python"))

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what the wheel now has."""
        if version != "editable":
            self._folder.cleanup()
