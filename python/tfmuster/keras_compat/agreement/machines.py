"""Compare what the program and its numbers come from, if the workers are on several machines.

Each machine has its own copy of the program's files, its own packages and its own settings. A stale copy, or
a release that rounds or sorts otherwise, need not show in what a call means: it may have prepared the data.
"""

from __future__ import annotations

import functools
import hashlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ...environment import BATCH_NORM_VARIABLE
from ...system.only_one import machine_name
from ...system.program_files import MOST_FILES, code_digest, digest, is_comparable
from ...system.user_code import is_library, user_script
from ...system.versions import version_of
from ..process import PROCESS, tell
from .refusals import compare, refuse, tasks_text

#: The entry of a call's document with this worker's machine.
MACHINE: Final = "machine"
#: Packages that compute with the data, by their modules.
_COMPUTING: Final = {
    "albumentations": ("albumentations",),
    "cv2": ("opencv-python", "opencv-python-headless", "opencv-contrib-python"),
    "datasets": ("datasets",),
    "duckdb": ("duckdb",),
    "librosa": ("librosa",),
    "nltk": ("nltk",),
    "numba": ("numba",),
    "numpy": ("numpy",),
    "pandas": ("pandas",),
    "PIL": ("pillow", "pillow-simd"),
    "polars": ("polars",),
    "pyarrow": ("pyarrow",),
    "scipy": ("scipy",),
    "skimage": ("scikit-image",),
    "sklearn": ("scikit-learn",),
    "spacy": ("spacy",),
    "tensorflow_datasets": ("tensorflow-datasets", "tfds-nightly"),
    "tensorflow_probability": ("tensorflow-probability", "tfp-nightly"),
    "tensorflow_text": ("tensorflow-text", "tensorflow-text-nightly"),
    "tokenizers": ("tokenizers",),
    "torch": ("torch",),
    "transformers": ("transformers",),
}
#: What is in a file, but is the script itself, or prepares the Python of a machine for whatever it runs.
_NO_MODULES: Final = ("__main__", "__mp_main__", "sitecustomize", "usercustomize")
#: Variables that change numbers.
_VARIABLES: Final = (
    "KERAS_BACKEND",
    "TF_USE_LEGACY_KERAS",
    "TF_ENABLE_ONEDNN_OPTS",
    "TF_DETERMINISTIC_OPS",
    "TF_CUDNN_DETERMINISTIC",
    "TF_ENABLE_AUTO_MIXED_PRECISION",
    "NVIDIA_TF32_OVERRIDE",
    "XLA_FLAGS",
    "TF_XLA_FLAGS",
    "JAX_ENABLE_X64",
    "JAX_DEFAULT_DTYPE_BITS",
    "JAX_DEFAULT_MATMUL_PRECISION",
    BATCH_NORM_VARIABLE,
)


@functools.cache
def this_machine() -> str:
    """Return a name of this machine, which says nothing about it to others."""
    return hashlib.sha256(machine_name().encode()).hexdigest()[:16]


def agree_on_machines(call: str) -> None:
    """Raise a DataError if the workers' machines have other files, packages, or settings. Look only once.

    All workers must call it.
    """
    if PROCESS.machines_agree:
        return
    PROCESS.machines_agree = True
    files = {f"file {name}": path for name, path in _files()}
    codes = {name: code_digest(path) for name, path in files.items()}
    versions = {f"package {name}": version for name, version in _versions()}
    variables = {f"variable {name}": os.environ.get(name, "no value") for name in _VARIABLES}
    differences = compare(f"the machines of {call}", {**codes, **versions, **variables}, f"call {call}")
    # The chief alone may import a module, for example to draw a figure.
    common = {
        name: difference
        for name, difference in differences.items()
        if all(value is not None for value, _ in difference.values)
    }
    refuse(f"{call} begins", common)
    contents = {name: digest(path.read_bytes()) for name, path in files.items()}
    for name, difference in compare(f"the files of {call}", contents, f"call {call}").items():
        (value, (first, *_)), *rest = difference.values
        if all(other is not None for other in (value, *(other for other, _ in rest))):
            others = tasks_text(task for _, tasks in rest for task in tasks)
            tell("files", f"{name} of {others} has other texts or comments than that of {first}")


def _files() -> Iterator[tuple[str, Path]]:
    """Yield the script and the program's modules that are imported, by names that all machines have."""
    found: dict[str, Path] = {}
    if (script := user_script()) is not None:
        found[Path(script).name] = Path(script).absolute()
    for name, module in sorted(sys.modules.items()):
        path = getattr(module, "__file__", None)
        if not isinstance(path, str) or not path.endswith(".py") or is_library(path):
            continue
        if name not in _NO_MODULES:
            found[f"{name.replace('.', '/')}.py"] = Path(path)
    for name, path in list(found.items())[:MOST_FILES]:
        if is_comparable(path):
            yield name, path


def _versions() -> Iterator[tuple[str, str]]:
    """Yield the packages that are imported, with those numbers of their releases that may change results."""
    for module, packages in _COMPUTING.items():
        if module in sys.modules and (version := version_of(*packages)) is not None:
            yield packages[0], ".".join(version.split(".")[:2])
