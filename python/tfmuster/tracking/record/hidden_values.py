"""Leave secrets out of what a run directory keeps of a command line and of environment variables.

They may hold a secret: ``--api-key abc``, ``WANDB_API_KEY=abc``, ``https://user:password@host``,
``-H "Authorization: Bearer abc"``, ``{"api_key": "abc"}``, ``hf_abc...``. The program gets them unchanged.
The run directory, which is kept and may be shared, gets ``***`` in place of the secret. It is recognized by
the name of its option, variable or field, or by its own form. When in doubt, more is hidden: the record then
shows less of a command, and the run can't be resumed by its name.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

HIDDEN: Final = "***"

#: Words in a name whose value is a secret.
_SECRET: Final = {
    *("token", "secret", "secrets", "password", "passwords", "passwd", "passphrase", "pwd"),
    *("credential", "credentials", "apikey", "accesskey", "secretkey", "privatekey"),
    *("authorization", "bearer"),
}
#: Words that do not always name a secret: a number or a switch, such as ``--auth true``, stays.
_MAYBE: Final = {"auth", "pass", "pw"}
#: The same at the end of a longer word, such as ``PGPASSWORD``.
_ENDINGS: Final = ("token", "secret", "password", "passwd", "passphrase", "apikey")
#: With ``key`` after them, these are secrets, too.
_OF_KEYS: Final = {
    *("api", "access", "secret", "private", "account", "auth", "encryption", "signing", "ssh", "license"),
}
#: Names with these words are of numbers, such as ``--max-token 512``, or of text, such as ``--eos-token``.
_HARMLESS: Final = {
    *("max", "min", "num", "n", "count", "length", "size", "dim"),
    *("eos", "bos", "pad", "mask", "unk", "sep", "cls"),
}
_PARTS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_OPTION: Final = re.compile(r"-{1,2}[A-Za-z][\w.-]*")
_SWITCH: Final = re.compile(r"(?i)[+-]?[\d.]+|true|false|yes|no|none|null|on|off")
#: A value without meaning to people: letters and digits. A name that ends in "key" has such a secret.
_RANDOM: Final = re.compile(r"(?=[^\d]*\d)(?=[^A-Za-z]*[A-Za-z])[A-Za-z0-9+/=_-]{20,}")

#: A whole argument ``NAME=VALUE``: the value is all the rest, blanks too.
_ARGUMENT: Final = re.compile(r"(?P<name>-{0,2}[A-Za-z][\w.-]*)(?P<sign>:?=)(?P<value>.+)", re.DOTALL)
#: Somewhere in a text: NAME=VALUE, "NAME": VALUE, NAME: VALUE. A name begins where a word does.
_NAMED: Final = re.compile(
    r"(?<![\w.-])-{0,2}(?P<name>[A-Za-z_][\w.-]{0,199})(?P<sign>[\"']?\]?\s*:?=|[\"']\s*:|:(?=\s))\s*"
)
#: Its value: a quoted text, or all up to the next blank; after the scheme of an ``Authorization``. What is
#: hidden already does not change, because records are written again.
_VALUE: Final = re.compile(
    r"(?:(?:Bearer|Basic|Digest|Token)\s+)?(?:\*{3}|\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|[^\s\"']+)",
    re.DOTALL,
)
#: How much of a value is looked at to tell whether it is a secret, so that long texts take no long time.
_JUDGED: Final = 500
#: Secrets by their form, each with what stays of it.
_FORMS: Final = (
    # The keys of ssh and TLS.
    (r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", HIDDEN),
    # The password of a URL may have an @ and a slash; https://host:8080/a@b has none.
    (r"(?<=://)([^/@\s:]*):(?!\d+(?:/|$))[^\s\"']{1,2000}(?=@)", rf"\1:{HIDDEN}"),
    # Signed URLs.
    (r"(?i)([?&][\w.-]*(?:sig|signature|credential|key|code)=)[^&\s\"']+", rf"\1{HIDDEN}"),
    (r"(?i)\b(Bearer\s+)[\w.~+/=-]{16,}", rf"\1{HIDDEN}"),
    # Hugging Face, GitHub, npm, Stripe; GitHub, GitLab, PyPI; OpenAI; Slack; Amazon; Google; JSON web tokens.
    (r"(?<![\w-])(?:hf|gh[oprsu]|npm|[rs]k)_(?:live_|test_)?[A-Za-z0-9]{16,}", HIDDEN),
    (r"(?<![\w-])(?:github_pat_|glpat-|pypi-)[\w-]{16,}", HIDDEN),
    (r"(?<![\w-])sk-(?=[A-Za-z_-]*\d)[\w-]{20,}", HIDDEN),
    (r"(?<![\w-])xox[a-z]-[\w-]{10,}", HIDDEN),
    (r"(?<![\w-])(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Z0-9])", HIDDEN),
    (r"(?<![\w-])(?:AIza[\w-]{30,}|ya29\.[\w-]{20,})", HIDDEN),
    (r"(?<![\w-])eyJ[\w-]{8,}\.eyJ[\w-]{8,}(?:\.[\w-]*)?", HIDDEN),
)
_BY_FORM: Final = tuple((re.compile(form, re.DOTALL), kept) for form, kept in _FORMS)
#: A word of a line of shell, with its quoted parts.
_SHELL_WORD: Final = re.compile(r"(?:\"(?:[^\"\\]|\\.)*\"|'[^']*'|\\.|[^\s\"'\\])+|\S", re.DOTALL)
_QUOTED: Final = re.compile(r"(?P<quote>[\"'])(?P<inside>.*\s.*)(?P=quote)", re.DOTALL)
#: Options whose value is a user and a password, and such a value. Two numbers are a user and a group.
_USER: Final = ("-u", "--user", "--proxy-user")
_USER_VALUE: Final = re.compile(r"([\"']?[^:\s/]+):(?!\d+[\"']?\Z).+", re.DOTALL)


def without_secrets(command: Sequence[str]) -> list[str]:
    """Return a command line with ``***`` in place of the values that look like secrets."""
    return list(_after_options(map(str, command), _in_argument))


def _after_options(words: Iterable[str], hide: Callable[[str], str]) -> Iterator[str]:
    """Hide each word by itself, or by the option before it whose value it is."""
    option = ""
    for word in words:
        is_option = bool(_OPTION.fullmatch(word))
        if option in _USER and not is_option and (user := _USER_VALUE.fullmatch(word)):
            yield f"{user[1]}:{HIDDEN}"
        elif option and not is_option and is_secret(option, word):
            yield HIDDEN
        else:
            yield hide(word)
        option = word if is_option else ""


def without_secret(name: str, value: str) -> str:
    """Return the value of an environment variable, with ``***`` in place of what looks like a secret."""
    return HIDDEN if is_secret(name, value) else _in_text(value)


def settings_without_secrets(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings of a launch, with ``***`` in place of what looks like a secret in their values."""
    return {name: _in_setting(name, value) for name, value in settings.items()}


def _in_setting(name: str, value: Any) -> Any:
    if isinstance(value, Mapping):
        return {inner: without_secret(inner, str(text)) for inner, text in value.items()}
    if isinstance(value, str):
        return without_secret(name, value)
    return without_secrets(value) if isinstance(value, list) else value


def is_secret(name: str, value: str | None = None) -> bool:
    """Return whether the value of this name is a secret. Without a value, the name alone decides."""
    parts = [part.lower() for part in _PARTS.findall(name)]
    if not parts or _HARMLESS.intersection(parts):
        return False
    if not _SECRET.isdisjoint(parts) or any(part.endswith(_ENDINGS) for part in parts):
        return True
    if any(first in _OF_KEYS and second == "key" for first, second in itertools.pairwise(parts)):
        return True
    if value is None:
        return False
    bare = value.strip("\"'")
    if parts[-1] == "key":
        return bool(_RANDOM.fullmatch(bare))
    return not _MAYBE.isdisjoint(parts) and not _SWITCH.fullmatch(bare)


def _in_argument(word: str) -> str:
    whole = _ARGUMENT.fullmatch(word)
    if whole and is_secret(whole["name"], whole["value"]):
        return f"{whole['name']}{whole['sign']}{HIDDEN}"
    return _in_text(word)


def _in_text(text: str) -> str:
    """Hide secrets anywhere in a text: a line of shell, a connection string, a header, JSON."""
    text = _by_name(text)
    for form, kept in _BY_FORM:
        text = form.sub(kept, text)
    return _in_shell_line(text) if re.search(r"\s", text) else text


def _by_name(text: str) -> str:
    kept, at = [], 0
    while name := _NAMED.search(text, at):
        # The value of one name may be the next name: --set=HF_TOKEN=abc
        kept.append(text[at : name.end()])
        at = name.end()
        begin = _VALUE.match(text, at, at + _JUDGED)
        if at < len(text) and is_secret(name["name"], begin[0] if begin else text[at : at + _JUDGED]):
            kept.append(HIDDEN)
            # Of a quote that is not closed, nothing is shown.
            at = value.end() if (value := _VALUE.match(text, at)) else len(text)
    return "".join([*kept, text[at:]])


def _in_shell_line(text: str) -> str:
    """Hide what follows an option in a line of shell, such as that of ``bash -c``."""
    kept, at = [], 0
    words = list(_SHELL_WORD.finditer(text))
    for word, shown in zip(words, _after_options((word[0] for word in words), _inside_quotes), strict=True):
        kept += [text[at : word.start()], shown]
        at = word.end()
    return "".join([*kept, text[at:]])


def _inside_quotes(word: str) -> str:
    quoted = _QUOTED.fullmatch(word)
    return f"{quoted['quote']}{_in_shell_line(quoted['inside'])}{quoted['quote']}" if quoted else word
