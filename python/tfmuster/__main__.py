"""``python -m tfmuster`` is the command ``tfmuster``."""

from .cli import main

raise SystemExit(main())
