"""What a run keeps of a command line has no values that look like secrets."""

from __future__ import annotations

import pytest

from tfmuster.runs.hidden_values import without_secrets


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("train.py --token abc --epochs 3", "train.py --token *** --epochs 3"),
        ("train.py --api-key=abc", "train.py --api-key=***"),
        ("train.py --api_key abc -password abc", "train.py --api_key *** -password ***"),
        ("train.R secret=abc wandb.apiKey=abc", "train.R secret=*** wandb.apiKey=***"),
        ("train.py s3://user:abc@host/x", "train.py s3://user:***@host/x"),
        ("train.py --token --verbose", "train.py --token --verbose"),
    ],
)
def test_secrets_are_hidden(given: str, kept: str) -> None:
    assert without_secrets(given.split()) == kept.split()


@pytest.mark.parametrize(
    "command",
    [
        "train.py --tokenizer bert --max-tokens 512 --num-token 3 --key loss",
        "train.py --monkey abc --keyword=abc --author me --tokens 5",
        "train.py lr=0.1 --secretary abc https://host:8080/a@b",
    ],
)
def test_other_values_stay(command: str) -> None:
    assert without_secrets(command.split()) == command.split()


def test_nothing_of_a_secret_is_left() -> None:
    words = [
        "env",
        "WANDB_API_KEY=abc",
        "AWS_SECRET_ACCESS_KEY=abc/abc=abc",
        "bash",
        "-c",
        "HF_TOKEN=abc  --password abc  x",
    ]
    assert "abc" not in " ".join(without_secrets(words))
    assert (
        without_secrets(["bash", "-c", "python t.py  --password abc x"])[-1]
        == "python t.py  --password *** x"
    )
