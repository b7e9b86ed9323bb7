"""What `server.R` does in Python, which is in the same process."""

from __future__ import annotations

import ctypes
import os
import socket
import sys
import tempfile
from collections.abc import Callable

from serving import PATH, Server, become


def next_child(descriptor: int, prepare: Callable[[], object], script: str) -> int:
    """Serve. Return, in a child that R is to run the program in, the process id of its representative."""
    before, place = os.environ.pop("FORK_NAMES").split(), os.environ.pop("FORK_PLACE")
    # Another reticulate may have neither. Then this ends here, and programs start by themselves.
    watch_for_interrupts = watcher_of_interrupts()
    before_others = next(i for i, each in enumerate(PATH, 1) if each.endswith("/reticulate/config"))
    os.replace(f"{place}.part", place)
    server = Server(socket.socket(fileno=descriptor), prepare)
    request, descriptors = server.next_child()
    of_r = {name: value for name, value in os.environ.items() if name not in before}
    become(request, descriptors, {**of_r, **server.variables}, before_others)
    # As reticulate does.
    path = [os.path.dirname(sys.executable), *request["environ"].get("PATH", "").split(os.pathsep)]
    os.environ["PATH"] = os.pathsep.join(dict.fromkeys(path))
    os.environ["R_SESSION_INITIALIZED"] = f'PID={request["pid"]}:NAME="reticulate"'
    set_words(request["words"])
    read_from(script, program(request["words"][3:]))
    # tempdir(check = TRUE) makes another one: that of the server is the server's.
    ctypes.c_char_p.in_dll(ctypes.CDLL(None), "R_TempDir").value = b"/nonexistent"
    watch_for_interrupts()
    return int(request["pid"])


def set_words(words: list[str]) -> None:
    """Set what commandArgs() returns; R's script writes expressions without spaces and ends of lines."""
    own = words.index("--args") if "--args" in words else len(words)
    shown = [
        each.replace(" ", "~+~").replace("\n", "~n~") if words[at - 1] == "-e" and at < own else each
        for at, each in enumerate(words)
    ]
    binary = os.path.join(os.environ["R_HOME"], "bin", "exec", "R")
    texts = [os.fsencode(each) for each in (binary, *shown[1:])]
    # R keeps copies.
    ctypes.CDLL(None).R_set_command_line_arguments(len(texts), (ctypes.c_char_p * len(texts))(*texts))


def program(words: list[str]) -> int:
    """Open the file that R is to read: the named one, or one with the expressions, as R makes it."""
    if words[0] != "-e":
        return os.open(words[0].removeprefix("--file="), os.O_RDONLY)
    file, name = tempfile.mkstemp()
    os.unlink(name)
    for option, text in zip(words[::2], words[1::2], strict=False):
        if option != "-e":
            break
        os.write(file, os.fsencode(text + "\n"))
    os.lseek(file, 0, os.SEEK_SET)
    return file


def read_from(script: str, file: int) -> None:
    """Let R, which has read the script to its end, read on from the file."""
    for name in os.listdir("/proc/self/fd"):
        path = f"/proc/self/fd/{name}"
        if os.path.islink(path) and os.readlink(path) == script:
            os.dup2(file, int(name))
    os.close(file)


def watcher_of_interrupts() -> Callable[[], object]:
    """Return what starts the thread by which reticulate sees Ctrl-C while Python runs; a fork lacks it."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        library = next(line.split()[-1] for line in maps if line.rstrip().endswith("/reticulate.so"))
    start: Callable[[], object] = ctypes.CDLL(library)._ZN10reticulate10event_loop10initializeEv
    return start
