"""``tfmuster doctor`` on this machine, which it asks for its programs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from support.launching import tfmuster
from tfmuster import __version__
from tfmuster.diagnostics import doctor


def test_the_report_is_quick_and_names_what_is_there(tmp_path: Path) -> None:
    done = tfmuster("doctor", "--json", "--no-devices", cwd=tmp_path)
    report = json.loads(done.stdout)
    assert report["tfmuster"] == __version__
    assert report["python"]["executable"] == sys.executable
    assert report["packages"]["tensorflow"].startswith("2.")
    assert report["devices"] is None
    assert 0 < report["machine"]["free_port"] < 65_536
    assert "listens on 0.0.0.0" in report["notes"][0]


@pytest.mark.fresh
def test_it_imports_no_tensorflow() -> None:
    code = (
        "import sys; from tfmuster.diagnostics.doctor import doctor; doctor(devices=True)\n"
        "print('tensorflow' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "False\n"


@pytest.mark.slow
def test_devices_are_asked_for_in_another_process() -> None:
    devices = doctor.doctor(devices=True)["devices"]
    assert "/physical_device:CPU:0" in devices
    assert doctor.doctor(devices=True, timeout=0.01)["devices"] == "TensorFlow did not start within 0 s"


def test_a_python_that_lacks_modules_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "ssl", raising=False)
    monkeypatch.setitem(sys.modules, "_ssl", None)
    report = doctor.doctor(devices=False)
    assert list(report["python"]["lacks"]) == ["ssl"]
    assert any("can't import ssl (" in note for note in doctor.notes(report))


def test_a_tf_config_that_is_in_the_way_is_told(tmp_path: Path) -> None:
    text = json.dumps({"cluster": {"worker": ["a:1", "a:1"]}, "task": {"type": "worker", "index": 0}})
    done = tfmuster("doctor", "--no-devices", cwd=tmp_path, TF_CONFIG=text)
    assert "TF_CONFIG is set: " in done.stdout
    assert done.returncode == 0


def test_a_machine_without_a_compiler_is_told_what_it_costs(tmp_path: Path) -> None:
    without = {"PATH": "/proc/nothing", "XDG_CACHE_HOME": str(tmp_path)}
    done = tfmuster("doctor", "--no-devices", cwd=tmp_path, **without)
    told = " ".join(done.stdout.split())
    assert "sum gradients with numpy, which takes two to five times as long" in told
    assert "this machine has no C compiler; install gcc or clang." in told


def test_proxies_are_told_without_their_passwords(tmp_path: Path) -> None:
    def told(**env: str) -> str:
        no_proxies = dict.fromkeys(("http_proxy", "https_proxy", "no_proxy", "NO_PROXY"), "")
        done = tfmuster("doctor", "--no-devices", cwd=tmp_path, **{**no_proxies, **env})
        assert done.returncode == 0, done.stderr
        return " ".join(done.stdout.split())

    assert "through the proxy" not in told()
    text = json.dumps({"cluster": {"worker": ["n1:1", "n2:1"]}, "task": {"type": "worker", "index": 0}})
    said = told(grpc_proxy="http://me:geheim@proxy:3128", no_proxy="n2", TF_CONFIG=text)
    assert "geheim" not in said and "@proxy:3128" in said
    assert "grpc_proxy is set, and TensorFlow would connect to 127.0.0.1, n1 through the proxy." in said
    assert "export no_grpc_proxy=n2,127.0.0.1,n1" in said
    said = told(http_proxy="http://p:1", https_proxy="http://p:1", no_grpc_proxy="127.0.0.1")
    assert (
        "https_proxy and http_proxy are set; no_grpc_proxy or no_proxy excepts the tasks here (127.0" in said
    )
