"""Run processes in a network of their own, which has only loopback (Linux, without root).

A holder process makes a network namespace, and for users who are not root a user namespace around it, in
which they keep their own user id. ``nsenter`` runs each command there, in place of itself.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator

#: Runs with ``-I -S``, so it starts in 20 ms and imports nothing of this package.
_HOLDER = """
import ctypes, fcntl, os, socket, struct, sys
uid, gid = os.getuid(), os.getgid()
NEW_USER, NEW_NET, FLAGS_OF, SET_FLAGS, UP = 0x10000000, 0x40000000, 0x8913, 0x8914, 1
libc = ctypes.CDLL(None, use_errno=True)
if libc.unshare(NEW_NET | (NEW_USER if uid else 0)):
    sys.exit(os.strerror(ctypes.get_errno()))
if uid:
    for file, line in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        with open(f"/proc/self/{file}", "w") as out:
            out.write(line)
with socket.socket() as any_socket:
    request = struct.pack("16sh14x", b"lo", 0)
    flags = struct.unpack("16sh14x", fcntl.ioctl(any_socket, FLAGS_OF, request))[1]
    fcntl.ioctl(any_socket, SET_FLAGS, struct.pack("16sh14x", b"lo", flags | UP))
print("ready", flush=True)
sys.stdin.read()
"""

#: How long the holder may take to make the network, in seconds.
_SECONDS = 10.0


@contextlib.contextmanager
def private_network() -> Iterator[tuple[str, ...]]:
    """Make the network, and yield what runs a command in it. Raises OSError that says why it can't."""
    enter = shutil.which("nsenter")
    if sys.platform != "linux" or enter is None:
        raise OSError("there is no nsenter (util-linux)" if enter is None else "this is not Linux")
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _HOLDER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as holder:
        try:
            assert holder.stdout is not None and holder.stderr is not None
            if holder.stdout.readline() != "ready\n":
                holder.wait(_SECONDS)
                raise OSError(holder.stderr.read().strip().rpartition("\n")[2] or "the system refuses it")
            user = ["--user", "--preserve-credentials"] if os.getuid() else []
            yield (enter, f"--target={holder.pid}", "--net", *user, "--")
        finally:
            # The namespace lives as long as a process in it.
            holder.communicate(timeout=_SECONDS)
