"""Hand a Python program that uses TensorFlow over to the server of forks, and stand for it until it ends.

A test puts this folder on PYTHONPATH; see `support/forks.py`. All other Pythons, and those whose environment
says something to Python or TensorFlow that the server was not started with, run as they would without it.
"""

import os
import sys

_SERVERS = os.environ.get("FORK_SERVERS", "")
#: What Python, TensorFlow and Keras read before a program can say anything.
_EARLY = ("PYTHON", "TF_", "KERAS_", "XLA_", "CUDA_", "MALLOC_", "LD_PRELOAD", "HOME")
#: What of it is set up for each program, or says what to print at the import.
_LATE = ("PYTHONPATH", "PYTHONUNBUFFERED", "PYTHONHASHSEED", "PYTHONIOENCODING", "PYTHONDONTWRITEBYTECODE")
_LATE += ("TF_CONFIG", "TF_CPP_MIN_LOG_LEVEL")
#: What make and Terraform read.
_LATE += ("PYTHON", "TF_CLI_CONFIG_FILE")
#: Those of Spark, and of Keras's initialize().
_LATE_KINDS = ("PYTHON_", "KERAS_DISTRIBUTION_")
_LIMITS = ("RLIMIT_AS", "RLIMIT_FSIZE", "RLIMIT_NOFILE", "RLIMIT_NPROC", "RLIMIT_STACK")
_SIGNALS = ("SIGHUP", "SIGINT", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGTERM", "SIGCONT", "SIGWINCH")


def place():
    """What a Python program and its server must have in common, in JSON's types."""
    import _locale

    locale = [_locale.setlocale(_locale.LC_CTYPE), sys.flags.utf8_mode]
    return {"prefix": sys.prefix, "locale": locale, **process(_EARLY)}


def process(early):
    """What any program and its server must have in common; ``early`` are beginnings of variables' names."""
    import resource

    known = [name for name in os.environ if name.startswith(early)]
    known = [name for name in known if name not in _LATE and not name.startswith(_LATE_KINDS)]
    limits = [resource.getrlimit(getattr(resource, name)) for name in _LIMITS]
    return {
        "environ": {name: os.environ[name] for name in known},
        "user": [os.getuid(), os.readlink("/proc/self/ns/user")],
        "root": [os.stat("/").st_dev, os.stat("/").st_ino],
        "cores": sorted(os.sched_getaffinity(0)),
        "limits": [list(each) for each in limits],
    }


def server_for(own):
    """Return the address of the server that has a program's ``own`` place; None if none has."""
    import json

    try:
        for name in os.listdir(_SERVERS):
            if name.endswith(".json"):
                path = os.path.join(_SERVERS, name)
                with open(path, encoding="utf-8") as file:
                    if json.load(file) == own:
                        return path[: -len(".json")]
    except OSError:
        pass
    return None


def _can_be_forked():
    words = sys.orig_argv
    as_text = len(words) > 2 and words[1] == "-c"
    trains = words[2:3] == ["train"] and words[1].endswith("/bin/tfmuster")
    as_file = (len(words) > 1 and words[1].endswith(".py")) or trains
    as_module = words[1:5] == ["-P", "-m", "tfmuster", "train"]
    if not (as_text or as_file or as_module) or hasattr(sys, "forked_for_test"):
        return False
    try:
        with open("/proc/self/environ", "rb") as file:
            environ = file.read()
            # It waits for work, with its own imports, or has a connection of MPICH's.
            if b"TFMUSTER_WARM=" in environ or b"PMI_FD=" in environ:
                return False
        if as_module:
            return True
        if as_text:
            return "tensorflow" in words[2] or "keras" in words[2]
        with open(words[1], encoding="utf-8", errors="replace") as program:
            text = program.read()
    except OSError:
        return False
    return any(name in text for name in ("tensorflow", "keras", "tfmuster"))


def hand_over(server, words):
    """Have the server run this process's program, and end with it. Return if there is no such server."""
    import contextlib
    import json
    import signal
    import socket

    umask = os.umask(0)
    os.umask(umask)
    own = str(os.getpid())
    passed = {name: value for name, value in os.environ.items() if (name, value) != ("TFMUSTER_PROCESS", own)}
    numbers = [getattr(signal, name) for name in _SIGNALS]
    request = {
        "words": words,
        "environ": passed,
        "folder": os.getcwd(),
        "umask": umask,
        "pid": os.getpid(),
        "parent": os.getppid(),
        "encoding": sys.stdout.encoding,
        "errors": [sys.stdout.errors, sys.stderr.errors],
        "ignored": [n for n in numbers if signal.getsignal(n) is signal.SIG_IGN],
    }
    client = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        client.connect(server)
        socket.send_fds(client, [json.dumps(request).encode()], [0, 1, 2])
    except OSError:
        return

    def hear():
        try:
            if heard := client.recv(100):
                return heard.split()
        except OSError:
            pass
        with contextlib.suppress(OSError), open(f"{server}.log", encoding="utf-8", errors="replace") as log:
            print("The server of forks has ended; see support/forks.py.", log.read()[-2000:], file=sys.stderr)
        return b"ended", b"70"

    said, number = hear()
    if said == b"runs":
        pid = int(number)

        def pass_on(number, frame):
            with contextlib.suppress(OSError):
                os.kill(pid, number)

        for number in numbers:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, pass_on)
        said, number = hear()
    end_as(int(number))


def end_as(code):
    """End as a program has ended: with an exit code, or of a signal where it is negative."""
    if code < 0:
        import resource
        import signal

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


if _SERVERS and _can_be_forked() and (_address := server_for(place())):
    hand_over(_address, sys.orig_argv)
