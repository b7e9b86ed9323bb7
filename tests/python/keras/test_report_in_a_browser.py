"""The HTML page of a run, as Chromium shows it."""

from __future__ import annotations

import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from support.evil_run import Seen, made_run
from tfmuster.tracking.show.report import write_report

CHROMIUM = shutil.which("chromium")


def browse(page: Path, *options: str) -> str:
    """What headless Chromium says about a page."""
    assert CHROMIUM is not None
    profile = page.parent / "profile"
    shutil.rmtree(profile, ignore_errors=True)
    done = subprocess.run(
        [
            CHROMIUM,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-background-networking",
            "--no-first-run",
            f"--user-data-dir={profile}",
            *options,
            page.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=90,
        check=True,
    )
    return done.stdout


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium: apt-get install chromium")
@pytest.mark.slow
def test_the_page_in_a_browser(tmp_path: Path) -> None:
    import tensorflow as tf

    with socket.create_server(("127.0.0.1", 0)) as server:
        run = made_run(tmp_path, server.getsockname()[1])
        page = Path(write_report(run, tmp_path / "page.html"))
        dom = browse(page, "--dump-dom")
        picture = tmp_path / "page.png"
        browse(page, f"--screenshot={picture}", "--window-size=1000,2600", "--force-device-scale-factor=1")
        server.settimeout(0.1)
        with pytest.raises(TimeoutError):
            server.accept()
    assert Seen(dom).tags.count("script") == 0
    assert "<title>tfmuster: evil'" in dom

    dark = tmp_path / "dark.png"
    browse(page, f"--screenshot={dark}", "--window-size=1000,2600", "--blink-settings=preferredColorScheme=0")
    corners = [tf.io.decode_png(path.read_bytes(), channels=3).numpy()[1, 1] for path in (picture, dark)]
    assert [corner.tolist() for corner in corners] == [[0xFF, 0xFF, 0xFF], [0x18, 0x1A, 0x1D]]
    pixels = tf.io.decode_png(picture.read_bytes(), channels=3).numpy().reshape(-1, 3)
    parts = {
        "the state": (0xA3, 0x41, 0x00),
        "training curves and phases": (0x00, 0x72, 0xB2),
        "validation curves": (0xD5, 0x5E, 0x00),
        "waiting": (0xE6, 0x9F, 0x00),
        "starting": (0x99, 0x99, 0x99),
        "output": (0xF5, 0xF5, 0xF5),
    }
    for part, colour in parts.items():
        assert (pixels == colour).all(axis=1).sum() > 20, part


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium: apt-get install chromium")
@pytest.mark.slow
def test_the_page_fits_the_width_of_a_phone(tmp_path: Path) -> None:
    page = Path(write_report(made_run(tmp_path), tmp_path / "page.html"))
    around = tmp_path / "around.html"
    around.write_text(
        '<iframe src="page.html" style="width: 400px; height: 700px; border: 0"></iframe>'
        "<script>onload = () => { const shown = frames[0].document;"
        "for (const part of shown.querySelectorAll('details')) part.open = true;"
        "const {scrollWidth, clientWidth} = shown.documentElement;"
        "document.title = [scrollWidth <= clientWidth, shown.querySelectorAll('svg').length] }</script>"
    )
    assert page.exists()
    assert "<title>true,4</title>" in browse(around, "--dump-dom", "--allow-file-access-from-files")
