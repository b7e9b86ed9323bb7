"""The command ``tfmuster``, also as ``python -m tfmuster``."""

import signal

# While this imports the command, Ctrl-C ends it as it ends any program, and without a traceback.
_interrupts = signal.getsignal(signal.SIGINT) is signal.default_int_handler
if _interrupts:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from .cli import main  # noqa: E402

if _interrupts:
    signal.signal(signal.SIGINT, signal.default_int_handler)

if __name__ == "__main__":
    raise SystemExit(main())
