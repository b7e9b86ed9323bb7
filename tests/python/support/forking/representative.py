"""Hand an R program of a test over to the server of forks, and stand for it until it ends.

Usage: representative.py R WORD...; the words are those of Rscript, for which RHOME has this program in R's
place. What can't be forked is run by R itself. With `--serve PLACE` before, R is started as the server, for
which what programs must have in common with it is written to a file beside PLACE.
"""

import json
import os
import sys

from sitecustomize import hand_over, process, server_for

#: What R, reticulate and TensorFlow read before a program can say anything.
_EARLY = ("R_PROFILE", "R_ENVIRON", "R_DEFAULT_PACKAGES", "RETICULATE_", "LC_ALL", "LC_CTYPE")
_EARLY += ("PYTHON", "TF_", "KERAS_", "XLA_", "CUDA_", "MALLOC_", "LD_PRELOAD", "HOME")
#: What is written in a program that needs tfmuster or TensorFlow.
_SIGNS = ("tfmuster", "tensorflow", "keras", "reticulate")


def place():
    """What an R program and its server must have in common, in JSON's types."""
    library, _, _ = os.environ.get("R_LIBS", "").partition(os.pathsep)
    return {"library": library, "language": os.environ.get("LANG"), **process(_EARLY)}


def can_be_forked(words):
    """Return whether the words are a file or expressions, with nothing about how R is to start."""
    own, _, _ = " ".join(words).partition(" --args")
    if words[:2] != ["--no-echo", "--no-restore"] or os.path.exists(".Rprofile") or "--vanilla" in own:
        return False
    if "TFMUSTER_WARM" in os.environ or "PMI_FD" in os.environ:
        return False
    if not words[2:]:
        return False
    if words[2] == "-e":
        return any(sign in own for sign in _SIGNS)
    try:
        with open(words[2].removeprefix("--file="), encoding="utf-8", errors="replace") as program:
            text = program.read()
    except OSError:
        return False
    return any(sign in text for sign in _SIGNS)


words = sys.argv[1:]
# Bash names each program that it starts here, and the start of R takes that away.
os.environ.pop("_", None)
if words[0] == "--serve":
    with open(f"{words[1]}.part", "w", encoding="utf-8") as file:
        json.dump(place(), file)
    os.environ["FORK_NAMES"] = " ".join(os.environ)
    os.environ["FORK_PLACE"] = words[1]
    words = words[2:]
elif os.environ.get("FORK_SERVERS") and can_be_forked(words[1:]) and (server := server_for(place())):
    hand_over(server, words)
os.execv(words[0], words)
