"""The command ``tfmuster``, also as ``python -m tfmuster``."""

import signal

# While this imports the command, Ctrl-C ends it as it ends any program, and without a traceback.
_handler = signal.getsignal(signal.SIGINT)
if _handler is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from .cli import main  # noqa: E402

signal.signal(signal.SIGINT, _handler)

if __name__ == "__main__":
    raise SystemExit(main())
