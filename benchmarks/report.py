"""Run the benchmarks one after the other and write results.json and results.md, with the machine they ran on.

Usage: report.py [FOLDER]    FOLDER: where to write; default: the working directory

Every row of a table is a ratio within one run. A benchmark that misses its limit ends with 1; the others
still run, and this program ends with 1, too.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil

from tfmuster.system.versions import recorded_versions

#: By name, with arguments. `accuracy.py` has a target of its own: it takes an hour.
PROGRAMS = {
    "config": [],
    "rendezvous": [],
    "launch": [],
    "starting": ["--repeat", "1"],
    "restart": [],
    "fit": [],
    "fit, gradients as bfloat16": ["--gradient-dtype", "bfloat16", "--batches", "64"],
    "fit, four workers": ["--workers", "4", "--batches", "64,256"],
    "all_reduce": [],
    "all_reduce, four workers": ["--workers", "4"],
    "wire": [],
    "ranks": [],
    "steps": [],
    "agreement": [],
    "batch_norm": [],
    "models": [],
    "input": [],
    "input, larger than memory": ["--large", "8"],
    "port_guard": [],
    "r": [],
    "spark": [],
    "chaos, two workers": ["--faults", "15"],
    "chaos, four workers": ["--faults", "15", "--workers", "4"],
}


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    model = platform.processor()
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next((line.partition(": ")[2] for line in lines if line.startswith("model name")), model)
    return {
        "processor": model,
        "cores": os.cpu_count(),
        "memory_gb": round(psutil.virtual_memory().total / 1e9),
        "system": platform.platform(),
        "load": [round(number, 2) for number in os.getloadavg()],
        **recorded_versions(),
    }


def tables(lines: list[str]) -> list[list[dict[str, str]]]:
    """The Markdown tables in a program's output, a dictionary for each row."""
    found: list[list[dict[str, str]]] = []
    heading: list[str] = []
    for line in lines:
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not line.startswith("|"):
            heading = []
        elif not heading:
            heading = cells
            found.append([])
        elif not set(line) <= set("|- "):
            found[-1].append(dict(zip(heading, cells, strict=False)))
    return found


def main() -> int:
    """Run all; 0 if all kept their limits."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    about = machine()
    results: dict[str, Any] = {}
    text = [f"{about['processor']}, {about['cores']} cores, {about['memory_gb']} GB; TensorFlow "]
    text[0] += f"{about.get('tensorflow')}, Keras {about.get('keras')}, Python {about['python']}"
    for name, arguments in PROGRAMS.items():
        program = Path(__file__).with_name(f"{name.partition(',')[0]}.py")
        print(f"== {name}", flush=True)
        load, begin = os.getloadavg()[0], time.perf_counter()
        done = subprocess.run(
            [sys.executable, program, *arguments], capture_output=True, text=True, check=False
        )
        print(done.stdout, flush=True)
        if done.returncode:
            print(done.stderr[-2000:], file=sys.stderr)
        lines = done.stdout.splitlines()
        results[name] = {
            "arguments": arguments,
            "exit_code": done.returncode,
            "seconds": round(time.perf_counter() - begin, 1),
            "load_before": round(load, 2),
            "tables": tables(lines),
            "lines": lines,
        }
        text += ["", f"## {name}", "", *lines]
    (folder / "results.json").write_text(json.dumps({"machine": about, "results": results}, indent=1) + "\n")
    (folder / "results.md").write_text("\n".join(text) + "\n")
    return int(any(result["exit_code"] for result in results.values()))


if __name__ == "__main__":
    raise SystemExit(main())
