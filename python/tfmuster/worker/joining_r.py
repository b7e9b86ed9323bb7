"""Let TensorFlow in an R session join the cluster of TF_CONFIG, also if R sets it after Python has started.

Python keeps a copy of the environment from its start, so TensorFlow would not see the variable: its strategy
would train in this process alone, without a word.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

from ..cluster.tf_config import tf_config_in_r
from .import_hook import after_import, install_import_hook


def join_from_r(*, keras: bool) -> None:
    """Prepare this process as a launched worker if TF_CONFIG is set. R calls it when Python has started.

    Otherwise, look again when TensorFlow is imported, and when the program makes a strategy of its own. For
    ``keras`` see :func:`.install_import_hook`.
    """
    if not _adopt(install := functools.partial(install_import_hook, keras=keras)):
        after_import({"tensorflow": functools.partial(_look_again, install)})


def _adopt(install: Callable[[], None]) -> bool:
    """Take over the TF_CONFIG of R, and prepare this process for its cluster. Return whether there is one."""
    text = tf_config_in_r()
    if text:
        os.environ["TF_CONFIG"] = text
        install()
    return bool(text)


def _look_again(install: Callable[[], None]) -> None:
    from ..keras_compat import seams
    from ..rendezvous.task.control_channel import ControlChannel

    if _adopt(install):
        return
    stock, looks = seams.COLLECTIVE_INIT.get(), [True]

    @seams.COLLECTIVE_INIT.wrap
    def init(self: Any, *args: object, **kwargs: object) -> None:
        # strategy() has joined the cluster before.
        if looks and ControlChannel.current() is None and _adopt(install):
            looks.clear()
            seams.COLLECTIVE_INIT.get()(self, *args, **kwargs)
        else:
            stock(self, *args, **kwargs)
