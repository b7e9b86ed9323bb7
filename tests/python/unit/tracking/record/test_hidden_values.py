"""What a run keeps of a command line has no values that look like secrets."""

from __future__ import annotations

import pytest

from tfmuster.tracking.record.hidden_values import is_secret, without_secret, without_secrets


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


LETTERS = "abc1" * 10


@pytest.mark.parametrize(
    ("word", "kept"),
    [
        ("--set=HF_TOKEN=abc", "--set=HF_TOKEN=***"),
        ("--conf=spark.hadoop.fs.s3a.secret.key=abc", "--conf=spark.hadoop.fs.s3a.secret.key=***"),
        ("--header=Authorization: Bearer abc", "--header=Authorization: ***"),
        ("Server=x;Password=abc", "Server=x;Password=***"),
        ("https://x/?a=1&access_token=abc", "https://x/?a=1&access_token=***"),
        ("https://x/?sv=2&sig=abc%3d&b=2", "https://x/?sv=2&sig=***&b=2"),
        ("postgres://u:abc@abc/abc@host/db", "postgres://u:***@host/db"),
        ('{"api_key": "abc \\" abc", "lr": 1}', '{"api_key": ***, "lr": 1}'),
        ("train(api_key = 'abc abc', lr = 1)", "train(api_key = ***, lr = 1)"),
        ("os.environ['HF_TOKEN'] = 'abc'", "os.environ['HF_TOKEN'] = ***"),
        ("password: abc", "password: ***"),
        ("token='abc abc", "token=***"),
        (f'"private_key": "{LETTERS * 100} {LETTERS}", 1', '"private_key": ***, 1'),
        ("PGPASSWORD=abc", "PGPASSWORD=***"),
        (f"WANDB_KEY={LETTERS}", "WANDB_KEY=***"),
        (f"hf_{LETTERS}", "***"),
        (f"https://ghp_{LETTERS}@github.com/x", "https://***@github.com/x"),
        (f"x github_pat_11_{LETTERS} y", "x *** y"),
        (f"sk-proj-{LETTERS}", "***"),
        ("AKIAABCABCABCABCABC1", "***"),
        (f"eyJ{LETTERS}.eyJ{LETTERS}.{LETTERS}", "***"),
        ("-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----\n", "***\n"),
        (
            "curl -H 'Authorization: Bearer abc' -H 'X-Api-Key: abc' -u me:abc http://x || true",
            "curl -H 'Authorization: ***' -H 'X-Api-Key: ***' -u me:*** http://x || true",
        ),
        ("bash -c \"train --password 'abc abc' x\"", 'bash -c "train --password *** x"'),
    ],
)
def test_a_secret_is_found_within_an_argument(word: str, kept: str) -> None:
    assert without_secrets([word]) == [kept]
    # Records are written again, and compared.
    assert without_secrets([kept]) == [kept]


def test_values_of_options_that_only_may_be_secrets() -> None:
    given = (
        "--pass abc --auth true --dropout-pass 0.1 -u me:abc -u 1000:1000 --sort-key name --eos-token </s>"
    )
    kept = "--pass *** --auth true --dropout-pass 0.1 -u me:*** -u 1000:1000 --sort-key name --eos-token </s>"
    assert without_secrets(given.split()) == kept.split()
    assert is_secret("GIT_PW", "abc") and not is_secret("GIT_PW", "1") and not is_secret("GIT_PW")


@pytest.mark.parametrize(
    ("name", "value", "kept"),
    [
        ("HF_TOKEN", "abc", "***"),
        ("DATABASE_URL", "postgres://u:abc@h/x", "postgres://u:***@h/x"),
        ("MINE", f"hf_{LETTERS}", "***"),
        ("DATABASE_DSN", "host=h password=abc", "host=h password=***"),
        ("PATH", "/a:/b", "/a:/b"),
    ],
)
def test_environment_variables(name: str, value: str, kept: str) -> None:
    assert without_secret(name, value) == kept


@pytest.mark.timeout(10)
def test_long_texts_take_no_long_time() -> None:
    for word in ("a=", "?key=", "://a:", "token='", "'", "Authorization: Basic ", "a ", "eyJaaaaaaaa."):
        without_secrets([word * 10_000])


@pytest.mark.parametrize(
    "command",
    [
        "train.py --tokenizer bert --max-tokens 512 --num-token 3 --key loss",
        "train.py --monkey abc --keyword=abc --author me --tokens 5",
        "train.py lr=0.1 --secretary abc https://host:8080/a@b",
        "train.py app.auth:login a=b:c host:8080 sk-learn-random-forest-model --sha=0123456789abcdef012345",
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
