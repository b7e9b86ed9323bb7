"""A user other than root on machines of a network, although Python may be where only root can read."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from support.hosts import Network, run
from support.launching import TFMUSTER, environment
from support.paths import ROOT

NAME, NUMBER = "trainer", 4242


class Users:
    """Makes one user on all machines of a network, whose folder any user can enter."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self.home = network.folder / "home of a trainer"
        self._passwd = network.folder / "passwd"

    def build(self) -> None:
        """Let the user log in on all machines, and own the folders there."""
        folder, machines = self._network.folder, self._network.machines.values()
        self.home.mkdir()
        account = f"{NAME}:x:{NUMBER}:{NUMBER}::{self.home}:/bin/bash\n"
        self._passwd.write_text(Path("/etc/passwd").read_text() + account)
        config = self._network.config.read_text().replace("User root", f"User {NAME}")
        self._network.config.write_text(config)
        own = [self._network.work, self.home, folder / "key"]
        own += [part for machine in machines for part in (machine.temporary, machine.folder / "work")]
        run("chown", "-R", f"{NUMBER}:{NUMBER}", *own)
        for machine in machines:
            run(*self._network.inside(machine.name), "sh", "-ec", self._opened())

    def launch(self, *arguments: object, limit: float = 100) -> subprocess.CompletedProcess[str]:
        """``tfmuster launch`` on ``here`` by the user, in the working directory."""
        command = [
            *("setpriv", f"--reuid={NUMBER}", f"--regid={NUMBER}", "--clear-groups", "--bounding-set=-all"),
            *(*TFMUSTER, "launch", *map(str, arguments)),
        ]
        opened = f"{self._opened()}\ncd {shlex.quote(str(self._network.work))}\nexec {shlex.join(command)}"
        more = {"HOME": str(self.home), "USER": NAME, "LOGNAME": NAME}
        return subprocess.run(
            ["ip", "netns", "exec", self._network.here, "unshare", "--mount", "sh", "-ec", opened],
            env=environment(TFMUSTER_SSH_CONFIG=str(self._network.config), **more),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=limit,
            check=False,
        )

    def _opened(self) -> str:
        """Commands that make the account known, and Python and tfmuster readable, in a mount namespace."""
        lines = [f"mount --bind {shlex.quote(str(self._passwd))} /etc/passwd"]
        closed = defaultdict(set)
        for path in {Path(sys.base_prefix).resolve(), Path(sys.prefix).resolve(), ROOT.resolve()}:
            above = [folder for folder in reversed(path.parents) if not folder.stat().st_mode & 0o001]
            if above:
                closed[above[0]].add(path)
        for folder, paths in closed.items():
            # Another folder takes its place, which any user can enter, and has what is needed.
            aside = {path: f"/mnt/{number}" for number, path in enumerate(sorted(paths))}
            lines.append("mount -t tmpfs none /mnt")
            for path, place in aside.items():
                lines += [f"mkdir -p {place}", shlex.join(["mount", "--bind", str(path), place])]
            lines.append(shlex.join(["mount", "-t", "tmpfs", "-o", "mode=755", "none", str(folder)]))
            for path, place in aside.items():
                mount = shlex.join(["mount", "--bind", place, str(path)])
                lines += [shlex.join(["mkdir", "-p", str(path)]), mount]
        return "\n".join(lines)
