"""Fork Python programs of tests from a process that has TensorFlow imported.

Usage: server.py DESCRIPTOR PLACE MODULE...; it listens on DESCRIPTOR, and writes to the file PLACE what
programs must have in common with it. It imports the modules for the first program.

Importing TensorFlow takes three seconds of a processor, in each worker of each job: more than what most
tests train. A program that `sitecustomize` hands over is run in a child of this process instead. TensorFlow
is imported here, but not started, so that a child has a runtime and threads of its own. The product itself
never forks with TensorFlow loaded; `jobs/test_forked_workers.py` compares such a worker with a fresh one.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import json
import os
import runpy
import signal
import socket
import sys
import types
from pathlib import Path

from serving import Server, become
from sitecustomize import place


def import_modules() -> None:
    for name in sys.argv[3:]:
        importlib.import_module(name)


def run() -> None:
    """Run what ``sys.argv`` names, as Python does: a file, a text with -c, or a module with -P -m."""
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    vars(main).update(__builtins__=__builtins__, __annotations__={})
    try:
        if sys.argv[0] == "-P":
            _, _, module = sys.argv[:3]
            sys.argv[:3] = ["-m"]
            runpy.run_module(module, run_name="__main__", alter_sys=True)
            return
        if sys.argv[0] == "-c":
            sys.path.insert(0, "")
            main.__loader__ = importlib.machinery.BuiltinImporter
            code = compile(sys.argv.pop(1), "<string>", "exec")
        else:
            path = os.path.abspath(sys.argv[0])
            sys.path.insert(0, str(Path(path).resolve().parent))
            loader = importlib.machinery.SourceFileLoader("__main__", path)
            vars(main).update(__loader__=loader, __file__=path, __cached__=None)
            code = compile(Path(path).read_bytes(), path, "exec")
        exec(code, main.__dict__)
    except SystemExit:
        raise
    except BaseException as error:
        # As Python does, without the frames of this file.
        trace = error.__traceback__
        while trace and trace.tb_frame.f_code.co_filename == __file__:
            trace = trace.tb_next
        sys.last_type, sys.last_value, sys.last_traceback = type(error), error.with_traceback(trace), trace
        sys.excepthook(type(error), error, trace)
        if isinstance(error, KeyboardInterrupt):
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)
        sys.exit(1)


Path(sys.argv[2]).write_text(json.dumps(place()))
server = Server(socket.socket(fileno=int(sys.argv[1])), import_modules)
request, descriptors = server.next_child()
sys.orig_argv[:] = request["words"]
sys.argv[:] = request["words"][1:]
become(request, descriptors, server.variables)
run()
