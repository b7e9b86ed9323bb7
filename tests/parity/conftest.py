"""R inside this process, by rpy2: reticulate then uses this very Python, and both faces share one core."""

from __future__ import annotations

import atexit
import itertools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(autouse=True, scope="session")
def _cache_of_r(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep the runs of R functions out of the user's cache."""
    os.environ["R_USER_CACHE_DIR"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="session")
def r() -> Callable[..., Any]:
    """A caller of the functions of helpers.R: ``r("tf_config_from_r", jobs, type, index)``."""
    os.environ["RETICULATE_PYTHON"] = sys.executable
    from rpy2.rinterface_lib import embedded

    # rpy2 releases Python's lock while R runs. reticulate 1.28 does not take it when R's garbage collector
    # lets Python objects go, and the process aborts. So R collects when asked to, with the lock held.
    embedded.set_initoptions(("rpy2", "--quiet", "--no-save", "--min-nsize=20M", "--min-vsize=2G"))
    from rpy2 import robjects

    # R's end and TensorFlow's threads do not go together: the process would abort or hang when it exits.
    atexit.unregister(embedded.endr)
    robjects.r["source"](str(Path(__file__).with_name("helpers.R")))

    calls = itertools.count(1)

    def call(name: str, *args: Any, **kwargs: Any) -> Any:
        if next(calls) % 10 == 0:
            robjects.globalenv["collect_with_lock"]()
        return robjects.globalenv[name](*args, **kwargs)[0]

    return call
