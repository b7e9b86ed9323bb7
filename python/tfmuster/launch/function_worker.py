"""What each worker of ``launch(function)`` runs."""

import os
import sys

# Not the folder of this file, whose neighbours nobody means; but files that were sent along.
sys.path[0] = os.getcwd()

from tfmuster.launch.function import work_on_call  # noqa: E402

work_on_call(sys.argv[1], sys.argv[2:])
