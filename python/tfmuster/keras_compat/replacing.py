"""Replace a function wherever a library exports it."""

from __future__ import annotations

import sys
from typing import Any


def replace_everywhere(stock: Any, new: Any) -> None:
    """Replace a function in all imported modules of its package.

    The module that defines it is one of them. TensorFlow makes modules of its API anew, such as
    ``tf.saved_model`` when something imports ``tensorflow.saved_model``; they take the function from there.
    """
    package, name = stock.__module__.partition(".")[0], stock.__name__
    for module_name, module in list(sys.modules.items()):
        if module_name.partition(".")[0] == package and vars(module).get(name) is stock:
            setattr(module, name, new)
