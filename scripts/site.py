"""Build the documentation, offline: site.py [OUTPUT], by default build/site. A warning is an error.

1. pkgdown makes pages of R's manual and vignettes (scripts/r-pages.R), if R is there.
2. docs/ is copied to .site/, with pages made from the code: Python's names, errors, variables, seams, the
   gallery.
3. Sphinx builds all of them into one site.
4. Every link within the site is checked.

TFMUSTER_VIGNETTES=text leaves out what vignettes compute, which takes minutes.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / ".site"
R_PAGES = ROOT / "build" / "r-pages"
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "scripts")]
os.environ.setdefault("R_LIBS", str(ROOT / ".rlib"))
os.environ.setdefault("RETICULATE_PYTHON", sys.executable)

import seams  # noqa: E402 - beside this file

import tfmuster  # noqa: E402 - of this checkout

#: What the page of Python's names is divided into.
SUBJECTS = {
    "Launch and look at runs": (
        "launch",
        *("Local", "Ssh", "Slurm", "Sge", "Pbs", "Lsf", "Mpi", "Spark", "Control"),
        "workers",
        "runs",
        "find_run",
        "compare_runs",
        "Run",
        "write_report",
        "tensorboard_callback",
    ),
    "Clusters": (
        *("Cluster", "Task", "check_cluster", "Report", "tf_config_json", "parse_tf_config", "use_tf_config"),
        *("current_task", "tf_config_from_barrier"),
    ),
    "Strategies and loops": ("strategy", "strategy_table", "ps_fit", "distributed_step"),
    "Data": (
        *("batches", "file_batches", "csv_rows", "parquet_rows", "tfrecord_rows", "image_rows", "own_rows"),
        *("mnist", "synthetic", "Digits"),
    ),
    "Training, checkpoints, models": (
        *("train_mnist", "TrainingResult", "mnist_model", "checkpoint_callback", "evaluate_checkpoints"),
        *("scaled_learning_rate", "save_model", "model_to_bytes", "model_from_bytes"),
        *("all_rows", "broadcast", "gather", "chief_first"),
    ),
    "This machine": ("doctor", "selftest"),
    "Errors": (
        *("TfmusterError", "ClusterError", "StrategyError", "DataError", "ModelError", "CheckpointError"),
        *("DependencyError", "LaunchError", "RendezvousError", "WorkerError", "TfmusterWarning"),
    ),
}


def python_pages() -> dict[str, str]:
    """Return a page for each public name, and one that lists them."""
    names = [name for name in dir(tfmuster) if not name.startswith("_")]
    placed = [name for part in SUBJECTS.values() for name in part]
    missing = sorted(set(names) - set(placed))
    subjects = {**SUBJECTS, **({"Others": tuple(missing)} if missing else {})}
    pages = {}
    examples = (ROOT / "docs" / "reference" / "examples.md").read_text(encoding="utf-8")
    example_of = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", examples, re.M | re.S))
    lines = [
        "# Python",
        "",
        "`import tfmuster` loads no TensorFlow. Each name is loaded when you first use it.",
        "",
    ]
    for subject, part in subjects.items():
        lines += [f"## {subject}", "", "| name | what it does |", "|---|---|"]
        for name in part:
            thing = getattr(tfmuster, name)
            first = re.sub(r":\w+:`~?([^`]+)`", r"`\1`", (thing.__doc__ or "").strip().splitlines()[0])
            lines.append(f"| [`{name}`]({name}.md) | {first.replace('``', '`')} |")
            kind = "autoclass" if isinstance(thing, type) else "autofunction"
            members = (
                ["   :members:", "   :inherited-members: Exception, tuple"] if kind == "autoclass" else []
            )
            text = [f"# {name}", "", "```{eval-rst}", f".. {kind}:: tfmuster.{name}", *members, "```", ""]
            text += ["## Example", "", "From [one session with all examples](../examples.md):", ""]
            text += [example_of.get(name, "")]
            pages[f"reference/python/{name}.md"] = "\n".join(text)
        lines.append("")
    every = [name for part in subjects.values() for name in part]
    lines += ["```{toctree}", ":hidden:", "", *every, "```", ""]
    return {**pages, "reference/python/index.md": "\n".join(lines)}


def cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")


def error_page() -> str:
    """Return the table of all errors, from which R's vignette is made, too."""
    rows = json.loads((ROOT / "vignettes" / "troubles.json").read_text(encoding="utf-8"))
    lines = [
        "# Errors",
        "",
        "Every error that tfmuster raises on purpose says what must hold, what was found, and what to do. "
        "Python's class is given by its kind, such as `LaunchError`, and all are `tfmuster.TfmusterError`. "
        "R's condition has the classes `tfmuster_error_<kind>` and `tfmuster_error`. "
        "Most have a field `reason`.",
        "",
    ]
    for kind in dict.fromkeys(row["kind"] for row in rows):
        lines += [f"## `{kind}`", "", "| text | reason | cause | what to do |", "|---|---|---|---|"]
        for row in rows:
            if row["kind"] == kind:
                reason = f"`{row['reason']}`" if row["reason"] else ""
                lines.append(
                    f"| {cell(row['text'])} | {reason} | {cell(row['cause'])} | {cell(row['fix'])} |"
                )
        lines.append("")
    return "\n".join(lines)


def variable_page() -> str:
    """Return the table of the variables, from the comments of environment.py."""
    text = (ROOT / "python" / "tfmuster" / "environment.py").read_text(encoding="utf-8")
    lines = ["# Environment variables", ""]
    heads = {
        "Set by the launcher": "Set by the launcher, for each worker",
        "Set by users": "That you can set",
    }
    pattern = r"^# (Set [^\n]+)\n|((?:^#: [^\n]*\n)+)((?:^[A-Z_]+: Final = \"TFMUSTER_\w+\"\n)+)"
    for found in re.finditer(pattern, text, re.M):
        if found[1]:
            title = next((heads[key] for key in heads if found[1].startswith(key)), found[1].rstrip("."))
            lines += ["", f"## {title}", "", "| variable | meaning |", "|---|---|"]
            continue
        names = ", ".join(f"`{name}`" for name in re.findall(r'"(TFMUSTER_\w+)"', found[3]))
        meaning = " ".join(line[3:] for line in found[2].strip().splitlines()).replace("``", "`")
        if not any(line.startswith("## ") for line in lines):
            lines += ["## Names", "", "| variable | meaning |", "|---|---|"]
        lines.append(f"| {names} | {cell(meaning)} |")
    return "\n".join([*lines, ""])


def gallery_pages() -> dict[str, str]:
    """Return a page for each program: what it is, its text, its output on two workers, its curve."""
    index = (ROOT / "docs" / "gallery" / "index.md").read_text(encoding="utf-8")
    rows, names, pages = [], [], {}
    for program in sorted((ROOT / "examples" / "gallery").iterdir()):
        if program.suffix not in (".py", ".R"):
            continue
        text = program.read_text(encoding="utf-8")
        python = program.suffix == ".py"
        title = (ast.get_docstring(ast.parse(text)) or "") if python else text.lstrip("# ")
        title = title.splitlines()[0].rstrip(".")
        name = program.stem.replace("_", "-")
        rows.append(f"| [{title}]({name}.md) | {'Python' if python else 'R'} |")
        names.append(name)
        start = "python" if python else "Rscript"
        language = "python" if python else "r"
        page = [
            f"# {title}",
            "",
            "```sh",
            f"{start} examples/gallery/{program.name}                  # one process",
            f"tfmuster launch -n 2 examples/gallery/{program.name}    # two workers",
            "```",
            "",
            "## Program",
            "",
            f"```{{literalinclude}} ../../examples/gallery/{program.name}",
            f":language: {language}",
            "```",
            "",
        ]
        if (ROOT / "docs" / "gallery" / f"{name}.txt").exists():
            page += [
                "## Output on two workers",
                "",
                f"```{{literalinclude}} {name}.txt",
                ":language: text",
                "```",
                "",
            ]
        if (ROOT / "docs" / "gallery" / f"{name}.svg").exists():
            page += [f"![Training curves of {program.name}]({name}.svg)", ""]
        pages[f"gallery/{name}.md"] = "\n".join(page)
    table = "\n".join(
        ["| program | language |", "|---|---|", *rows, "", "```{toctree}", ":hidden:", "", *names, "```"]
    )
    return {**pages, "gallery/index.md": index.replace("GALLERY", table)}


def of_the_site(text: str, page: Path) -> str:
    """Let links to files of the repository lead to their pages."""
    contributing = os.path.relpath(SOURCE / "developers" / "contributing.md", page.parent)
    text = re.sub(r"\]\((?:\.\./)+CONTRIBUTING\.md", f"]({contributing}", text)
    return re.sub(r"\]\((?:\.\./)+vignettes/([\w-]+)\.Rmd", r"](r:articles/\1.html", text)


def copy_source() -> None:
    shutil.rmtree(SOURCE, ignore_errors=True)
    shutil.copytree(ROOT / "docs", SOURCE, ignore=shutil.ignore_patterns("__pycache__"))
    for page in SOURCE.rglob("*.md"):
        page.write_text(of_the_site(page.read_text(encoding="utf-8"), page), encoding="utf-8")
    made = {
        "developers/contributing.md": (ROOT / "CONTRIBUTING.md")
        .read_text(encoding="utf-8")
        .replace("](docs/", "](../"),
        **python_pages(),
        **gallery_pages(),
        "developers/seams.md": seams.page(),
        "reference/errors.md": error_page(),
        "reference/environment.md": variable_page(),
    }
    for name, text in made.items():
        path = SOURCE / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def r_pages() -> bool:
    """Make R's pages, and say whether there are any."""
    asked = "quit(status = !all(vapply(c('pkgdown', 'tfmuster'), requireNamespace, NA, quietly = TRUE)))"
    if (
        not shutil.which("Rscript")
        or subprocess.run(["Rscript", "-e", asked], capture_output=True, check=False).returncode
    ):
        print("R, pkgdown or the R package is missing: the pages of R are left out.")
        return False
    shutil.rmtree(R_PAGES, ignore_errors=True)
    done = subprocess.run(
        ["Rscript", "scripts/r-pages.R", str(R_PAGES)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"pkgdown failed:\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    return True


class Page(HTMLParser):
    """The links and the places of a page."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.links: list[str] = []
        self.places: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("id", "name") and value:
                self.places.add(value)
            elif name in ("href", "src") and value is not None:
                self.links.append(value)


def broken_links(folder: Path) -> Iterator[str]:
    """Yield each link of the site that leads nowhere in it."""
    pages = {
        path.resolve(): Page(path.read_text(encoding="utf-8"))
        for path in folder.rglob("*.html")
        if path.relative_to(folder).parts[0] != "_static"
    }
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or link.startswith(("mailto:", "data:")):
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            if not target.exists():
                yield f"{path.relative_to(folder.resolve())}: {link}"
            elif (
                parts.fragment
                and target in pages
                and unquote(parts.fragment) not in pages[target].places | {"", "top"}
            ):
                yield f"{path.relative_to(folder.resolve())}: {link} (no such place)"


def main(output: str = "build/site") -> None:
    folder = (ROOT / output).resolve()
    has_r = r_pages()
    copy_source()
    shutil.rmtree(folder, ignore_errors=True)
    options = ["-W", "--keep-going", "-q", "-j", "2", "-d", str(ROOT / "build" / "doctrees")]
    subprocess.run(
        [sys.executable, "-m", "sphinx", *options, str(SOURCE), str(folder)],
        cwd=ROOT,
        env={**os.environ, "TFMUSTER_R_PAGES": str(R_PAGES) if has_r else ""},
        check=True,
    )
    if broken := sorted(set(broken_links(folder))):
        sys.exit("\n".join(["Links that lead nowhere:", *broken]))
    print(f"The documentation is in {folder}/index.html")


if __name__ == "__main__":
    main(*sys.argv[1:])
