"""What is refused before anything of Spark runs, and what executors say."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.functions import placed
from support.launching import write
from tfmuster import launch
from tfmuster.errors import DependencyError, LaunchError
from tfmuster.launcher.engines.base import engine_for
from tfmuster.launcher.engines.spark import Spark, _finding, _python_fault
from tfmuster.launcher.engines.spark_session import check_slots, first_line, refuse_secrets
from tfmuster.options import places


class TestRefusals:
    """Nothing of Spark runs here."""

    def test_options(self) -> None:
        engine = engine_for(
            places.Spark(
                "spark://a:7077",
                "spark.executor.cores=2",
                "plain=yes",
                files=["data"],
                remote_python="/opt/python",
            )
        )
        assert isinstance(engine, Spark)
        assert engine.as_options() == [
            *("--backend=spark", "--file=data", "--remote-python=/opt/python"),
            *("--backend-option=spark.executor.cores=2", "--backend-option=plain=yes"),
            "--master=spark://a:7077",
        ]

    @pytest.mark.parametrize("option", ["executor.cores=2", "spark.executor.cores", "plain=perhaps", ""])
    def test_what_is_no_option(self, option: str) -> None:
        with pytest.raises(LaunchError, match="a setting of Spark"):
            engine_for(places.Spark(None, option))

    @pytest.mark.parametrize(
        "given", [{"hosts": "node1:2"}, {"hostfile": "hosts"}, {"addresses": {"a": "b"}}]
    )
    def test_hosts_are_spark_s_to_choose(self, given: dict[str, Any]) -> None:
        with pytest.raises(LaunchError, match="Spark chooses") as refused:
            engine_for(places.Spark(**given))
        assert refused.value.fields["reason"] == "hosts"

    def test_a_session_and_a_master(self) -> None:
        with pytest.raises(LaunchError, match="already has a master"):
            engine_for(places.Spark("local[2]", spark=object()))

    def test_a_session_can_not_go_to_another_process(self, tmp_path: Path) -> None:
        with pytest.raises(LaunchError, match="can't use this session"):
            launch(placed, 1, None, on=places.Spark(spark=object()), wait=False, run_dir=tmp_path / "run")
        assert not (tmp_path / "run").exists()

    def test_what_is_no_session(self, tmp_path: Path) -> None:
        script = write(tmp_path, "t.py", "")
        with pytest.raises(LaunchError, match="a SparkSession of pyspark") as caught:
            launch(script, on=places.Spark(spark={"master": "local"}), run_dir=tmp_path / "run")
        assert caught.value.found == "builtins.dict"

    def test_without_pyspark(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "pyspark", None)
        with pytest.raises(DependencyError) as caught:
            launch(write(tmp_path, "t.py", ""), on=places.Spark(), run_dir=tmp_path / "run")
        assert caught.value.fields["package"] == "pyspark"
        assert caught.value.fix == "pip install 'tfmuster[spark]'"

    def test_a_spark_that_encrypts(self) -> None:
        refuse_secrets({"spark.ssl.enabled": "false"})
        with pytest.raises(LaunchError, match="TensorFlow's workers do not encrypt their connections"):
            refuse_secrets({"spark.ssl.enabled": "TRUE"})

    @pytest.mark.parametrize(
        ("said", "code", "message"),
        [
            (
                'Lost task ... java.io.IOException: Cannot run program "tfm-python": error=2, No such file',
                "no-python",
                "there is no such Python",
            ),
            (
                "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.9 than that in driver: "
                "3.11, PySpark cannot run with different minor versions.",
                "python-version",
                "Python 3.9, the driver 3.11",
            ),
            ("ModuleNotFoundError: No module named 'tfmuster'", "no-tfmuster", "tfmuster is not installed"),
            ("ModuleNotFoundError: No module named 'orjson'", "no-module", "no module orjson"),
        ],
    )
    def test_what_executors_say(self, said: str, code: str, message: str) -> None:
        finding = _finding("node1", _python_fault(said))
        assert finding["code"] == code
        assert message in finding["message"]
        assert not _python_fault("java.lang.OutOfMemoryError: Java heap space")

    @pytest.mark.parametrize(
        ("text", "line"),
        [
            (
                "An error occurred while calling z:x.\n: org.a.Bad: no room\n\tat a.b(C.java:1)\n",
                "org.a.Bad: no room",
            ),
            (
                ": org.a.SparkException: a stage failed.\norg.a.SparkException: \nError from python worker:\n"
                "  Traceback (most recent call last):\n  AttributeError: no major\nPYTHONPATH was:\n",
                "AttributeError: no major",
            ),
        ],
    )
    def test_the_line_that_counts(self, text: str, line: str) -> None:
        assert first_line(RuntimeError(text)) == line


class Coming:
    """What a context answers while the only executor of a local cluster comes after the first question."""

    master = "local-cluster[1,2,512]"
    startTime = time.time() * 1000
    questions = 0

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return lambda *_: self

    @property
    def _jsc(self) -> Coming:
        return self

    def getExecutorInfos(self) -> list[str]:
        return ["driver", "executor"][: self._next()]

    def maxNumConcurrentTasks(self, profile: object) -> int:
        return 2 if self._next() > 1 else 0

    def _next(self) -> int:
        self.questions += 1
        return self.questions


def test_an_executor_that_comes_between_two_questions_has_its_slots_counted() -> None:
    coming = Coming()
    check_slots(coming, 2)
    assert coming.questions > 1
    with pytest.raises(LaunchError, match="a slot for every task"):
        check_slots(coming, 3)
