"""The documentation builds offline without a warning, its links are sound, and browsers show it whole."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import tfmuster
from support.paths import ROOT

CHROMIUM = shutil.which("chromium")
HAS_R = (
    shutil.which("Rscript") is not None
    and not subprocess.run(
        ["Rscript", "-e", "quit(status = !requireNamespace('pkgdown', quietly = TRUE))"],
        capture_output=True,
        check=False,
    ).returncode
)
#: What loads something while a page is shown; a link that a reader can follow is not of them.
LOADED = re.compile(r"<(?:script|img|iframe|link)\b[^>]*?\b(?:src|href)=\"(?:https?:)?//[^\"]*\"[^>]*>")
#: Pages on which R, Python and the command line stand beside one another.
TABBED = (
    *("index", "install", "quickstart", "troubleshoot", "coming-from/tf-config", "coming-from/sparklyr"),
    *(f"tutorials/{name}" for name in ("one-machine", "several-machines", "slurm", "failures")),
    *(
        f"how-to/{name}"
        for name in ("batches", "own-data", "large-data", "notebooks", "tensorboard", "speed")
    ),
    *(f"how-to/{name}" for name in ("parameter_servers", "custom-loops", "evaluator", "export")),
    *(f"clusters/{name}" for name in ("ssh", "slurm", "spark", "mpi", "sge", "pbs", "lsf")),
    *("clusters/kubernetes", "clusters/machines", "coming-from/horovod", "coming-from/jax"),
)
SEEN = (
    "index",
    "quickstart",
    "install",
    "clusters/slurm",
    "reference/python/launch",
    "reference/command-line",
)
SEEN += ("how-to/speed", "performance", "reference/errors", "gallery/text")


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built where there is no network, if that can be had."""
    folder = tmp_path_factory.mktemp("built") / "site"
    command = [sys.executable, str(ROOT / "scripts" / "site.py"), str(folder)]
    alone = ["unshare", "--net", "--map-root-user", "true"]
    if shutil.which("unshare") and not subprocess.run(alone, capture_output=True, check=False).returncode:
        command = [*alone[:-1], *command]
    done = subprocess.run(
        command,
        env={**os.environ, "TFMUSTER_VIGNETTES": "text", "RETICULATE_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=570,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return folder


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_it_has_all_parts_and_loads_nothing_from_elsewhere(site: Path) -> None:
    for name in (*TABBED, *SEEN):
        assert (site / f"{name}.html").is_file(), name
    verbs = (site / "reference" / "command-line.html").read_text(encoding="utf-8")
    assert verbs.count('<p class="rubric">Everyday options') == 1
    for name in dir(tfmuster):
        if not name.startswith("_"):
            assert (site / "reference" / "python" / f"{name}.html").is_file(), name
    if HAS_R:
        for name in ("reference/index", "reference/launch", "articles/your-own-data"):
            assert 'id="pst-header"' in (site / "r" / f"{name}.html").read_text(), name
    for page in site.rglob("*.html"):
        assert not LOADED.search(page.read_text(encoding="utf-8")), page


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", TABBED)
def test_tasks_have_three_tabs(site: Path, name: str) -> None:
    text = (site / f"{name}.html").read_text(encoding="utf-8")
    tabs = re.findall(r'<label[^>]*data-sync-id="(\w+)"', text)
    assert tabs and tabs == ["r", "python", "cli"] * (len(tabs) // 3)


#: Shows pages in frames of a width, in a theme, and writes down what is wider than its frame or hard to read.
PROBE = """<!DOCTYPE html><body><pre id="found">waiting</pre><script>
const linear = (c) => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
const channels = (text) => text.match(/[\\d.]+/g).slice(0, 3).map((c) => linear(c / 255));
const light = (text) => { const [r, g, b] = channels(text); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
const look = (page, width, theme) => new Promise((done) => {
  const frame = document.createElement("iframe");
  frame.style.width = width + "px"; frame.style.height = "800px";
  frame.onload = () => {
    const root = frame.contentDocument.documentElement;
    root.dataset.theme = theme; root.dataset.mode = theme;
    const found = { page, width, theme, wide: root.scrollWidth - width, contrast: [] };
    const back = light(frame.contentWindow.getComputedStyle(frame.contentDocument.body).backgroundColor);
    const texts = "article p, article li, article h1, article td";
    for (const each of frame.contentDocument.querySelectorAll(texts)) {
      const front = light(frame.contentWindow.getComputedStyle(each).color);
      const ratio = (Math.max(front, back) + 0.05) / (Math.min(front, back) + 0.05);
      if (ratio < 4.5) found.contrast.push(each.tagName + " " + ratio.toFixed(1));
    }
    frame.remove(); done(found);
  };
  frame.src = page; document.body.append(frame);
});
(async () => {
  const found = [];
  for (const page of PAGES) for (const width of [1300, 400]) for (const theme of ["light", "dark"])
    found.push(await look(page, width, theme));
  document.getElementById("found").textContent = JSON.stringify(found);
})();
</script></body>"""


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium: apt-get install chromium")
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_nothing_is_cut_off_or_hard_to_read(site: Path, tmp_path: Path) -> None:
    of_r = ("r/reference/launch", "r/articles/concepts") if HAS_R else ()
    pages = [f"{name}.html" for name in (*SEEN, *of_r)]
    (site / "probe.html").write_text(PROBE.replace("PAGES", json.dumps(pages)))
    browser = [str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"]
    browser += [
        "--disable-background-networking",
        "--allow-file-access-from-files",
        "--virtual-time-budget=90000",
    ]
    browser += [f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", (site / "probe.html").as_uri()]
    done = subprocess.run(browser, capture_output=True, text=True, timeout=150, check=True)
    found = json.loads(re.search(r'<pre id="found">(.*?)</pre>', done.stdout, re.S)[1])
    assert len(found) == 4 * len(pages)
    assert [each for each in found if each["wide"] > 0 or each["contrast"]] == []


@pytest.mark.skipif(CHROMIUM is None or not HAS_R, reason="needs chromium and R's pkgdown")
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_search_finds_pages_of_r_too(site: Path, tmp_path: Path) -> None:
    browser = [str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"]
    browser += ["--disable-background-networking", "--virtual-time-budget=20000", "--dump-dom"]
    browser += [f"--user-data-dir={tmp_path / 'profile'}", (site / "search.html").as_uri() + "?q=on_sge"]
    done = subprocess.run(browser, capture_output=True, text=True, timeout=150, check=True)
    found = re.findall(r'<li[^>]*><a href="([^"#]+)"', done.stdout.partition('id="search-results"')[2])
    assert {"clusters/sge.html", "r/reference/on_local.html"} <= set(found)
    assert [page for page in found if not (site / page).exists()] == []


def test_the_check_of_links_finds_what_is_broken(tmp_path: Path) -> None:
    links = '<a href="b.html#here">x</a><a href="#no">y</a><img src="no.png"><a href="https://x.y">z</a>'
    (tmp_path / "a.html").write_text(links)
    (tmp_path / "b.html").write_text('<h1 id="here">x</h1><a href="a.html?q=1">x</a>')
    found = sorted(script("site").broken_links(tmp_path))
    assert found == ["a.html: #no (no such place)", "a.html: no.png"]


def test_links_of_the_sources_lead_somewhere() -> None:
    """Those of README and others, which are read in the repository, too."""
    for name in ("README.md", "CONTRIBUTING.md", "examples/gallery/README.md"):
        page = ROOT / name
        links = re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8"))
        paths = [link.partition("#")[0] for link in links if not re.match(r"[a-z]+:|#", link)]
        assert paths
        assert [path for path in paths if not (page.parent / path).exists()] == []


def test_the_lint_of_the_language(tmp_path: Path) -> None:
    lint = script("lint_docs")
    long = " ".join(["word"] * 31)
    page = tmp_path / "page.md"
    page.write_text(
        f"# {long}\n\n| {long} |\n\n```\n{long}\n```\n\nShort. Two `{long}` [{'w ' * 3}]({long}).\n\n"
        f"- Begins\n  {long}.\n\nThe error is mended. tfmuster {long[:-10]}.\n"
    )
    found = list(lint.findings(str(page)))
    assert [re.sub(r"^.*?:(\d+): ", r"\1 ", text)[:28] for text in found] == [
        "11 a sentence of 32 words: B",
        "14 'mended': correct, repair",
    ]
    roxygen = tmp_path / "page.R"
    roxygen.write_text(
        f"#' Title\n#'\n#' @param x It is mended; {long[:-10]}.\n#' @examples\n#' {long}\nx <- 1\n"
    )
    assert [text.partition(": ")[2] for text in lint.findings(str(roxygen))] == [
        "'mended': correct, repair, fix"
    ]
    assert {place for place, _ in lint.help_texts()} >= {"tfmuster launch", "tfmuster runs stop --save"}
    numpydoc = f"""Mend it.

    Parameters
    ----------
    x : int
        One. {long[:-10]}
        and more.
    y
        Two.

    Examples
    --------
    >>> {long}
    """
    assert list(lint.docstring(numpydoc)) == ["Mend it.", f"One. {long[:-10]} and more.", "Two."]
    read = [text for texts in (lint.messages, lint.web_pages) for _, text in texts()]
    assert "The script to run must exist." in read
    assert len(read) > 700
    assert any("the program has not finished an epoch" in text for text in read), "the report"
    assert {place for place, _ in lint.docstrings()} >= {
        "tfmuster.launch",
        "tfmuster.runs",
        "tfmuster.Run.stop",
    }
    assert lint.main([]) == 0


def test_the_figures_of_the_readme_are_those_of_the_measurements() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    ours, ddp = re.findall(r"PyTorch DDP .*?\| ([\d.]+), DDP ([\d.]+) \|", readme)[0]
    (loop,) = re.findall(r"hand-written loop .*?\| ([\d.]+) \|", readme)
    (efficiency,) = re.findall(r"without each other .*?\| ([\d.]+) \|", readme)
    measured = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    steps = measured.partition("| step | alone, ms |")[2].splitlines()[2].split(" | ")
    assert steps[0] == "| dense, 25 million weights, 32 rows"
    assert (ours, ddp) == (steps[3], steps[6])
    figures = measured.partition("| images per worker |")[2]
    row = next(line for line in figures.splitlines() if line.startswith("| 64 |")).strip("| ").split(" | ")
    assert (loop, efficiency) == (row[3], row[10])
