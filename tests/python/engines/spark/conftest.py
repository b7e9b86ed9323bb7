"""A standalone Spark cluster, started once for the tests of this folder."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator

import pytest

from support.launching import tfmuster, write
from support.spark_cluster import SparkCluster, few_programs, spark_cluster, why_not


@pytest.fixture(scope="module", autouse=True)
def quick_java(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """JVMs that live for seconds spend most of them on compiling for hours, and on loading Spark's classes.

    The classes come from an archive that a first job has written, for half of the time; it is worth it for
    more than a few tests.
    """
    few = sum(item.path.parent == request.path.parent for item in request.session.items) < 5
    options = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xlog:cds=off -Xlog:cds+dynamic=off"
    with pytest.MonkeyPatch.context() as patch:
        if why_not() is None and not few:
            folder = tmp_path_factory.mktemp("classes")
            write(folder, "t.py", "")
            patch.setenv("JDK_JAVA_OPTIONS", f"{options} -XX:ArchiveClassesAtExit={folder / 'spark.jsa'}")
            words = ["launch", "--backend", "spark", "--master", "local[1]", "-n", 1, "t.py"]
            with contextlib.suppress(subprocess.TimeoutExpired):
                if tfmuster(*words, cwd=folder, limit=150).returncode == 0:
                    options += f" -XX:SharedArchiveFile={folder / 'spark.jsa'}"
        patch.setenv("JDK_JAVA_OPTIONS", options)
        yield


@pytest.fixture(scope="package")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    folder = tmp_path_factory.mktemp("spark")
    path = f"{few_programs(folder / 'programs')}:{os.environ['PATH']}"
    with spark_cluster(folder, workers=3, PATH=path) as made:
        yield made
