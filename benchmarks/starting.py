"""How long a job takes to start, by launcher and number of workers; docs/starting.svg is drawn from it.

    export PYTHONPATH=tests/python  # machines of the tests
    python benchmarks/starting.py [--repeat 3] [--figure docs/starting.svg] [--only "this machine" ...]

From the command's start until the last worker has heard that everyone is present. The workers import no
TensorFlow, whose own start takes some seconds more and is the same with every launcher.
Real processes to 8 workers; beyond, the rendezvous alone, with threads for tasks (benchmarks/rendezvous.py).
The hosts of ssh are network namespaces of this machine, so all workers share its cores. Each figure is the
least of the repetitions, since whatever else the machine does only adds to it.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, indent, tostring

from rendezvous import measure

from tfmuster.launcher.engines.base import availability

HERE = Path(__file__).resolve().parent
WORKERS = (1, 2, 4, 8)
TASKS = (10, 100, 1000)
RENDEZVOUS = "rendezvous alone"
PROGRAM = """
import time
from tfmuster.rendezvous.task.join import join_cluster
from tfmuster.cluster.tf_config import current_task
join_cluster(current_task(), timeout=120)
print("met", time.time(), flush=True)
"""
#: Of Okabe and Ito, which the colour-blind tell apart.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#444444")

Start = Callable[[int], "tuple[float, str]"]
Series = dict[str, dict[int, float]]
_networks: list[Any] = []


def launched(folder: Path, *options: object) -> tuple[float, str]:
    """When ``tfmuster launch`` was called, and all that it said."""
    (folder / "meet.py").write_text(PROGRAM)
    begun = time.time()
    done = subprocess.run(
        [sys.executable, "-m", "tfmuster", "launch", *map(str, options), "meet.py"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    return begun, done.stdout + done.stderr


def this_machine(stack: ExitStack, folder: Path) -> Start:
    """Processes of this machine."""
    return lambda workers: launched(folder, "-n", workers)


def machines(stack: ExitStack, folder: Path) -> Any:
    """Four machines that are network namespaces, as in the tests; None where there can be none."""
    from support import hosts

    if not _networks and hosts.why_not() is None:
        _networks.append(stack.enter_context(hosts.built(folder / "machines")))
        hosts.put(_networks[0], "meet.py", PROGRAM)
    return _networks[0] if _networks else None


def ssh(stack: ExitStack, folder: Path) -> Start | None:
    """Four machines."""
    network = machines(stack, folder)
    if network is None:
        return None

    def start(workers: int) -> tuple[float, str]:
        each = math.ceil(workers / 4)
        names = ",".join(f"node{i + 1}:{each}" for i in range(min(workers, 4)))
        begun = time.time()
        done = network.launch("-n", workers, "-H", names, "meet.py", limit=180)
        return begun, done.stdout + done.stderr

    return start


def slurm(stack: ExitStack, folder: Path) -> Start | None:
    """A Slurm of the same four machines, with nothing else to do: submitting and waiting is in it."""
    network = machines(stack, folder)
    from support import slurm_cluster

    if network is None or slurm_cluster.why_not() is not None:
        return None
    cluster = stack.enter_context(slurm_cluster.Slurm(network).started())
    (cluster.shared / "meet.py").write_text(PROGRAM)

    def start(workers: int) -> tuple[float, str]:
        begun = time.time()
        launch = [sys.executable, "-m", "tfmuster", "launch", "--backend", "slurm"]
        done = cluster.run(*launch, "-n", workers, "meet.py", limit=180)
        return begun, done.stdout + done.stderr

    return start


def mpi(stack: ExitStack, folder: Path) -> Start | None:
    """The ranks of ``mpirun`` on this machine."""
    if shutil.which("mpirun") is None:
        return None
    return lambda workers: launched(folder, "--backend", "mpi", "-H", "localhost:8", "-n", workers)


def spark(stack: ExitStack, folder: Path) -> Start | None:
    """Tasks of a barrier stage; it includes the start of a local Spark."""
    if availability()["spark"].startswith("no"):
        return None
    return lambda workers: launched(folder, "--backend", "spark", "--master", "local[8]", "-n", workers)


LAUNCHERS: dict[str, Callable[[ExitStack, Path], Start | None]] = {
    "this machine": this_machine,
    "ssh": ssh,
    "slurm": slurm,
    "mpi": mpi,
    "spark": spark,
}


def seconds(start: Start, workers: int) -> float:
    begun, said = start(workers)
    met = [float(text) for text in re.findall(r"\bmet ([0-9.]+)$", said, re.M)]
    if len(met) != workers:
        sys.exit(f"{len(met)} of {workers} workers met:\n{said}")
    return max(met) - begun


def measure_all(repeat: int, only: Sequence[str]) -> Series:
    series: Series = {}
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        starts = {}
        for launcher, make in LAUNCHERS.items():
            if only and launcher not in only:
                continue
            folder = Path(name, launcher.replace(" ", "-"))
            folder.mkdir()
            start = make(stack, folder)
            if start is None:
                print(f"{launcher}: not here")
            else:
                starts[launcher] = start
        times: dict[tuple[str, int], list[float]] = {}
        # In turns, so that a busy moment of the machine falls on all of them alike.
        for _ in range(repeat):
            for workers in WORKERS:
                for launcher, start in starts.items():
                    times.setdefault((launcher, workers), []).append(seconds(start, workers))
        for (launcher, workers), each in times.items():
            series.setdefault(launcher, {})[workers] = min(each)
    series[RENDEZVOUS] = {
        tasks: min(measure(tasks, "secret")["seconds"] for _ in range(repeat)) for tasks in TASKS
    }
    return series


def show(series: Series) -> None:
    counts = sorted({workers for points in series.values() for workers in points})
    most, here = max(WORKERS), series.get("this machine", {})
    print(
        "| seconds | " + " | ".join(f"{count:,}" for count in counts) + f" | {most}: ratio to this machine |"
    )
    print("|---|" + "---|" * (len(counts) + 1))
    for name, points in series.items():
        cells = [f"{points[count]:.2f}" if count in points else "" for count in counts]
        cells.append(f"{points[most] / here[most]:.1f}" if most in points and here else "")
        print(f"| {name} | " + " | ".join(cells) + " |")


def element(tag: str, *children: Element | str, **attributes: object) -> Element:
    """Make an element; underscores in the names of attributes stand for hyphens."""
    made = Element(tag, {name.replace("_", "-"): str(value) for name, value in attributes.items()})
    made.text = "".join(child for child in children if isinstance(child, str)) or None
    made.extend(child for child in children if isinstance(child, Element))
    return made


def figure(series: Series) -> Element:
    """Both axes are logarithmic."""
    width, height, left, right, top, bottom = 860, 430, 70, 190, 30, 60
    largest = max(value for points in series.values() for value in points.values())
    smallest = min(value for points in series.values() for value in points.values())
    low, high = math.floor(math.log10(smallest)), math.ceil(math.log10(largest))

    def x(count: float) -> float:
        return left + (width - left - right) * math.log10(count) / 3

    def y(value: float) -> float:
        return height - bottom - (height - top - bottom) * (math.log10(value) - low) / (high - low)

    def label(text: str, at: tuple[float, float], **more: object) -> Element:
        return element("text", text, x=f"{at[0]:.0f}", y=f"{at[1]:.0f}", fill="#223", **more)

    parts = [element("rect", width=width, height=height, rx=8, fill="#ffffff")]
    for count in (1, 2, 4, 8, 10, 100, 1000):
        if count != 10:
            parts.append(label(f"{count:,}", (x(count), height - bottom + 20), text_anchor="middle"))
        parts.append(_line(x(count), top, x(count), height - bottom))
    for power in range(low, high + 1):
        parts.append(label(f"{10.0**power:g} s", (left - 8, y(10.0**power) + 5), text_anchor="end"))
        parts.append(_line(left, y(10.0**power), width - right, y(10.0**power)))
    parts.append(label("workers", ((left + width - right) / 2, height - 14), text_anchor="middle"))
    taken: list[float] = []
    ends = {name: (x(max(points)), y(points[max(points)])) for name, points in series.items()}
    for index, name in enumerate(sorted(series, key=lambda each: ends[each][1])):
        colour = COLOURS[index % len(COLOURS)]
        at = [(x(count), y(value)) for count, value in sorted(series[name].items())]
        path = " ".join(f"{a:.1f},{b:.1f}" for a, b in at)
        dash = {"stroke_dasharray": "6 4"} if name == RENDEZVOUS else {}
        parts.append(element("polyline", points=path, fill="none", stroke=colour, stroke_width=2, **dash))
        parts += [element("circle", cx=f"{a:.1f}", cy=f"{b:.1f}", r=4, fill=colour) for a, b in at]
        # Labels of lines that end beside each other are moved apart.
        place = at[-1][1] + 5
        while any(abs(place - other) < 17 for other in taken):
            place += 1
        taken.append(place)
        parts.append(
            element(
                "text", name, x=f"{at[-1][0] + 10:.0f}", y=f"{place:.0f}", fill=colour, font_weight="bold"
            )
        )
    text = "Seconds from the command to the last worker's go, by launcher and number of workers."
    return element(
        "svg",
        *parts,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {width} {height}",
        font_family="Helvetica, Arial, sans-serif",
        font_size=14,
        role="img",
        aria_label=text,
    )


def _line(x1: float, y1: float, x2: float, y2: float) -> Element:
    ends = {"x1": x1, "y1": y1, "x2": x2, "y2": y2}
    return element("line", stroke="#dde", **{name: f"{value:.1f}" for name, value in ends.items()})


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--figure", type=Path)
    parser.add_argument("--only", nargs="*", default=(), choices=list(LAUNCHERS))
    given = parser.parse_args()
    # However it is asked to end, the machines go with it.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    load = os.getloadavg()[0]
    series = measure_all(given.repeat, given.only)
    show(series)
    print(f"load before: {load:.1f}; {os.cpu_count()} cores; the least of {given.repeat}")
    if given.figure:
        made = figure(series)
        indent(made)
        given.figure.write_bytes(tostring(made) + b"\n")


if __name__ == "__main__":
    main()
