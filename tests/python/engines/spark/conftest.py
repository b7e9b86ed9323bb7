"""A standalone Spark cluster, started once for the tests of this folder."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from support.spark_cluster import SparkCluster, few_programs, spark_cluster


@pytest.fixture(scope="module", autouse=True)
def quick_java() -> Iterator[None]:
    """JVMs that live for seconds spend most of them on compiling for hours."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        yield


@pytest.fixture(scope="package")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    folder = tmp_path_factory.mktemp("spark")
    path = f"{few_programs(folder / 'programs')}:{os.environ['PATH']}"
    with spark_cluster(folder, workers=3, PATH=path) as made:
        yield made
