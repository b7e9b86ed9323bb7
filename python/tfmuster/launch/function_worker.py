"""Run the function on a worker of ``launch(function)``."""

import os
import sys

# Import files that were sent to the working directory, not the neighbors of this file.
sys.path[0] = os.getcwd()

from tfmuster.launch.function import work_on_call  # noqa: E402

work_on_call(sys.argv[1], sys.argv[2:])
