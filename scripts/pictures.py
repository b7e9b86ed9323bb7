"""Make the pictures and the output of the documentation: pictures.py [gallery[=PROGRAM]] [terminal].

gallery    runs each program of examples/gallery, or one, on two workers: docs/gallery/NAME.txt and NAME.svg
terminal   runs the digits on two workers in a terminal of 96 columns: docs/terminal.svg, when both train
"""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "python"))

import tfmuster  # noqa: E402
from tfmuster.tracking.show.report import report_html  # noqa: E402

os.environ.pop("TF_CPP_MIN_LOG_LEVEL", None)  # it shows TensorFlow's native lines
LAUNCH = [sys.executable, "-m", "tfmuster", "launch", "-n", "2"]
COLUMNS, LINES = 96, 22
STYLE = (
    "text { font: 11px sans-serif; fill: #333; } .phase { fill: #fff; } "
    ".grid { stroke: #ddd; } .best { stroke: #333; stroke-dasharray: 2 3; }"
)


def gallery(only: str = "") -> None:
    """Run the programs, and keep what they print and the curve of their loss, or else the timeline."""
    for program in sorted((ROOT / "examples" / "gallery").iterdir()):
        if program.suffix not in (".py", ".R") or only not in ("", program.name):
            continue
        folder = Path(tempfile.mkdtemp())
        shutil.copy(program, folder)
        env = {**os.environ, "RETICULATE_PYTHON": sys.executable}
        done = subprocess.run(
            [*LAUNCH, program.name], cwd=folder, env=env, capture_output=True, text=True, check=True
        )
        said = re.sub(r"\d{8}T\d{6}Z-", "20260101T120000Z-", done.stdout.replace(str(folder), "~"))
        if path := re.search(r"/(srv|tmp|home|root|work)/\S+", said):
            sys.exit(f"{program.name} prints a path of this machine, which readers do not have: {path[0]}")
        # Who waits for whom depends on what else the machine does.
        said = re.sub(r"^worker \d \| tfmuster: .*waiting for worker.*\n", "", said, flags=re.M)
        name = ROOT / "docs" / "gallery" / program.stem.replace("_", "-")
        name.with_suffix(".txt").write_text(
            f"$ tfmuster launch -n 2 {program.name}\n{said}", encoding="utf-8"
        )
        pictures = re.findall(r"<svg.*?</svg>", report_html(tfmuster.runs(folder=folder / "runs")[-1]), re.S)
        chosen = next((each for each in pictures if "loss by epoch" in each), pictures[-1])
        begin, end = re.match(r"<svg([^>]*)>(.*)", chosen, re.S).groups()  # type: ignore[union-attr]
        about = begin if "xmlns" in begin else f' xmlns="http://www.w3.org/2000/svg"{begin}'
        name.with_suffix(".svg").write_text(f"<svg{about}><style>{STYLE}</style>{end}\n", encoding="utf-8")
        print(name)


def terminal() -> None:
    """Record what a terminal shows at the moment when both workers train."""
    import pyte

    folder = tempfile.mkdtemp()
    train = ["--", "tfmuster", "train", "mnist", "--dataset", "synthetic", "--epochs", "8"]
    pid, file = pty.fork()
    if pid == 0:
        os.chdir(folder)
        os.environ.update(COLUMNS=str(COLUMNS), LINES=str(LINES), TERM="xterm-256color")
        os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        os.execv(sys.executable, [*LAUNCH, *train])
    screen = pyte.Screen(COLUMNS, LINES)
    stream = pyte.ByteStream(screen)
    kept = ""
    until = time.monotonic() + 120
    while time.monotonic() < until:
        if not select.select([file], [], [], 1)[0]:
            continue
        try:
            stream.feed(os.read(file, 65536))
        except OSError:
            break
        if "\n".join(screen.display).count("training  epoch") == 2:
            kept = styled(screen)
    os.waitpid(pid, 0)
    if not kept:
        sys.exit("Both workers were never seen to train.")
    (ROOT / "docs" / "terminal.svg").write_text(kept, encoding="utf-8")


def styled(screen: object) -> str:
    """Return the screen as a picture, with its colors, and with the fonts of whoever looks at it."""
    from rich.console import Console
    from rich.text import Text

    last = max(row for row in range(LINES) if screen.display[row].strip())  # type: ignore[attr-defined]
    text = Text()
    text.append(
        "$ tfmuster launch -n 2 -- tfmuster train mnist --dataset synthetic --epochs 8\n", style="bold"
    )
    for row in range(last + 1):
        cells = screen.buffer[row]  # type: ignore[attr-defined]
        for column in range(COLUMNS):
            cell = cells[column]
            color = {"default": "", "brown": "yellow"}.get(cell.fg, cell.fg)
            text.append(cell.data, style=" ".join(filter(None, (color, "bold" if cell.bold else ""))) or None)
        text.append("\n")
    with open(os.devnull, "w") as nowhere:
        console = Console(record=True, width=COLUMNS, file=nowhere)
        console.print(text)
        picture = console.export_svg(title="two workers", unique_id="terminal")
    return re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.S)


if __name__ == "__main__":
    for wanted in sys.argv[1:] or ["gallery", "terminal"]:
        name, _, only = wanted.partition("=")
        globals()[name](*filter(None, [only]))
