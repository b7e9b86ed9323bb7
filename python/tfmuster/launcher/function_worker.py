"""Run the function on a worker of ``launch(function)``."""

import os
import sys

# The neighbors of this file are no top-level modules.
_HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != _HERE]

from tfmuster.launcher.function import work_on_call  # noqa: E402

# Files that were sent to the working directory are for the function, not for tfmuster's own imports.
sys.path.insert(0, os.getcwd())
work_on_call(sys.argv[1], sys.argv[2:])
