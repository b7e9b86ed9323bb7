"""Every error has the same class and the same fields from R and from Python."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from tfmuster import Cluster, check_cluster, mnist, parse_tf_config, strategy, train_mnist
from tfmuster.errors import TfmusterError, TfmusterWarning
from tfmuster.words import speaking

BAD = json.loads((Path(__file__).parents[1] / "python" / "data" / "bad_clusters.json").read_text())


def crosses(text: str) -> bool:
    """Whether R can hold the text at all: no NUL, no lone surrogates."""
    return "\0" not in text and not any("\ud800" <= character <= "\udfff" for character in text)


def error_of(function: Callable[..., Any], *args: Any, **kwargs: Any) -> dict[str, Any]:
    """Classes and fields as R should have them, or an empty dict if nothing was raised."""
    with warnings.catch_warnings(), speaking("r"):
        warnings.simplefilter("ignore", TfmusterWarning)
        try:
            function(*args, **kwargs)
        except TfmusterError as error:
            fields = json.loads(orjson.dumps(error.to_dict()))
            del fields["message"]
            own = [f"tfmuster_error_{error.kind}", "tfmuster_error"]
            return {"class": [*own, "rlang_error", "error", "condition"], "fields": fields}
    return {}


def same(from_r: str, expected: dict[str, Any]) -> None:
    condition = json.loads(from_r) or {}
    if condition:
        # R can't tell a vector of one from its element, nor NULL from nothing.
        condition["fields"] = _plain(condition["fields"])
        expected["fields"] = _plain(expected["fields"])
    assert condition == expected


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        items = [_plain(item) for item in value]
        return items[0] if len(items) == 1 and not isinstance(items[0], dict) else items
    return value


def inputs(kind: str) -> list[Any]:
    rows = [row["input"] for row in BAD if row["as"] == kind]
    return [value for value in rows if not isinstance(value, str) or crosses(value)]


ADDRESSES, TEXTS, YAML = inputs("address"), inputs("tf_config"), inputs("yaml")


def test_the_table_is_used() -> None:
    assert len(ADDRESSES) + len(TEXTS) + len(YAML) >= 350


@pytest.mark.parametrize("address", ADDRESSES, ids=range(len(ADDRESSES)))
def test_bad_addresses(r: Callable[..., Any], address: Any) -> None:
    expected = error_of(Cluster, worker=[address])
    same(r("cluster_error_from_r", json.dumps({"worker": [address]})), expected)


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_bad_tf_config_texts(r: Callable[..., Any], text: str) -> None:
    same(r("text_error_from_r", text), error_of(parse_tf_config, text))


@pytest.mark.parametrize("text", YAML, ids=range(len(YAML)))
def test_bad_files(r: Callable[..., Any], text: str, tmp_path: Path) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text(text, encoding="utf-8")
    same(r("file_error_from_r", str(path)), error_of(Cluster.from_file, str(path)))


@pytest.mark.parametrize(
    ("type", "index"), [("ps", 0), ("worker", 2), ("worker", -1), ("worker", 0.5), ("", 0)]
)
def test_tasks_that_are_not_there(r: Callable[..., Any], type: str, index: float) -> None:
    jobs = {"worker": ["a:1", "b:2"]}
    same(
        r("task_error_from_r", json.dumps(jobs), type, json.dumps(index)),
        error_of(Cluster(**jobs).task, type, index),
    )


@pytest.mark.parametrize("text", TEXTS[:40], ids=range(len(TEXTS[:40])))
def test_reports_are_the_same(r: Callable[..., Any], text: str) -> None:
    if text.lstrip()[:1] not in ("{", "["):
        text = "\n" + text
    assert _plain(json.loads(r("report_from_r", text))) == _plain(check_cluster(text).to_dict())


@pytest.mark.tensorflow
def test_training_data_and_strategy_errors(r: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TF_CONFIG", raising=False)
    monkeypatch.setenv("TFMUSTER_STRICT", "1")
    same(r("model_error_from_r", "resnet"), error_of(train_mnist, "resnet"))
    same(
        r("model_error_from_r", "cnn", dataset="synthetic", epochs=0),
        error_of(train_mnist, "cnn", dataset="synthetic", epochs=0),
    )
    same(r("data_error_from_r", "/no/such/file"), error_of(mnist, "/no/such/file"))
    same(r("strategy_error_from_r", "morrored"), error_of(strategy, "morrored"))
    same(r("strategy_error_from_r", "multi_worker_mirrored"), error_of(strategy, "multi_worker_mirrored"))
    same(
        r("strategy_error_from_r", "mirrored", devices="GPU:7"),
        error_of(strategy, "mirrored", devices=["GPU:7"]),
    )
