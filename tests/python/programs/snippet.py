"""Run the code on the command line, and print the TfmusterError that it ends in, as JSON.

A process has one TensorFlow, which can be set up once, so each case of test_strategies.py has its own.
"""

import json
import sys

from tfmuster.errors import TfmusterError

try:
    exec(sys.argv[1], {"__name__": "__main__"})
except TfmusterError as error:
    print(json.dumps({**error.to_dict(), "text": str(error)}))
