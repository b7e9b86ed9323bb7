"""The command line of the driver: see the package."""

from __future__ import annotations

import argparse
import json
import shutil
import threading
import traceback
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import programs

from .outcomes import OUTCOMES, Outcome, of_again, of_one, of_two
from .running import run_again, run_one, run_two
from .scripts import missing_package, script_of, with_same_random
from .table import table_of

_LOCK = threading.Lock()


def main() -> None:
    """Run the programs that have no result yet, and write the table."""
    parser = argparse.ArgumentParser(prog="programs", description=programs.__doc__)
    parser.add_argument(
        "folders", nargs="*", type=Path, help="folders of scripts and notebooks, one per source"
    )
    parser.add_argument("--results", type=Path, required=True, help="the JSON file of all results")
    parser.add_argument("--only", default="", help="run only programs whose path has this text")
    parser.add_argument("--again", choices=OUTCOMES, action="append", default=[], help="run these again, too")
    parser.add_argument("--jobs", type=int, default=1, help="programs at a time. Default: 1")
    parser.add_argument(
        "--seconds", type=float, default=240, help="limit of one process; twice as long for two"
    )
    parser.add_argument("--work", type=Path, default=Path("programs-work"), help="folder of runs")
    parser.add_argument("--table", type=Path, help="write the tally to this Markdown file")
    arguments = parser.parse_args()
    results = json.loads(arguments.results.read_text()) if arguments.results.is_file() else {}
    wanted = [
        (folder.name, path)
        for folder in arguments.folders
        for path in sorted(folder.rglob("*"))
        if path.suffix in (".py", ".ipynb") and arguments.only in str(path)
    ]
    keys = {f"{source}/{path.stem}": path for source, path in reversed(wanted)}
    left = [key for key in sorted(keys) if key not in results or results[key]["outcome"] in arguments.again]
    left.sort(key=_turns(keys).__getitem__)

    def one_of(key: str) -> None:
        result = run(keys[key], arguments.work.resolve() / key.replace(" ", "_"), arguments.seconds)
        with _LOCK:
            results[key] = result.to_dict()
            text = json.dumps(dict(sorted(results.items())), indent=1)
            draft = arguments.results.with_suffix(".draft")
            draft.write_text(text + "\n")
            draft.replace(arguments.results)
        print(f"{result.outcome:9} {key}: {result.reason[:150]} {result.seconds}", flush=True)

    with ThreadPoolExecutor(arguments.jobs) as pool:
        list(pool.map(one_of, left))
    if arguments.table:
        arguments.table.write_text(table_of(results))


def _turns(keys: Iterable[str]) -> dict[str, int]:
    """Return the place of each program in its source, so that all sources get their turns."""
    places: Counter[str] = Counter()
    turns = {}
    for key in sorted(keys):
        source = key.partition("/")[0]
        places[source] += 1
        turns[key] = places[source]
    return turns


def run(path: Path, folder: Path, seconds: float) -> Outcome:
    """Run a program in one process and on two workers; what it wrote is kept unless all is equal."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    data = folder.parents[1] / "stand-ins"
    data.mkdir(exist_ok=True)
    script = folder / "program.py"
    try:
        text = script_of(path)
        script.write_text(text)
    except (SyntaxError, ValueError, KeyError) as error:
        return Outcome("not here", "not a program", f"{type(error).__name__}: {error}")
    if package := missing_package(text):
        return Outcome("not here", "a package", package)
    try:
        outcome = _compared(script, folder, data, seconds)
        if outcome.outcome in ("differs", "refused") and outcome.calls and (other := with_same_random(text)):
            # tf.random has other numbers on each worker, as is documented: is that all?
            script = folder / "same" / "program.py"
            script.parent.mkdir()
            script.write_text(other)
            same = _compared(script, script.parent, data, seconds)
            outcome = replace(outcome, without_tf_random=f"{same.outcome}: {same.reason}")
    except Exception:
        outcome = Outcome("not here", "an error of the driver", traceback.format_exc())
    if outcome.outcome in ("equal", "not here"):
        for place in folder.glob("*/*"):
            if place.is_dir():
                shutil.rmtree(place, ignore_errors=True)
    return outcome


def _compared(script: Path, folder: Path, data: Path, seconds: float) -> Outcome:
    one = run_one(script, folder, data, seconds)
    if outcome := of_one(one):
        return outcome
    calls = None if one.done().get("how") == "ended" else one.calls()
    outcome = of_two(one, run_two(script, folder, data, 2 * seconds, calls))
    if outcome.outcome == "differs" and outcome.calls:
        return of_again(outcome, one, run_again(script, folder, data, seconds, outcome.calls))
    return outcome


if __name__ == "__main__":
    main()
