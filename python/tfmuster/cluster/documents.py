"""Read cluster documents in JSON or YAML from untrusted sources: bounded in size, depth and time."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import orjson

from .findings import Findings

if TYPE_CHECKING:
    import yaml

#: In bytes; far more than the largest cluster needs.
LARGEST_DOCUMENT = 64 * 1024 * 1024
#: In bytes. YAML is read event by event, which is slower, and people write it, so it is shorter.
LARGEST_YAML = 1024 * 1024
_DEEPEST = 64
# A document of 64 MiB can hold millions of tiny values, and making objects of them would take seconds.
_MOST_VALUES = 1_000_000

_KEY_END = re.compile(r'"\s*:')
_WHOLE = re.compile(r"[-+]?[0-9]{1,18}", re.ASCII)
_FLOAT = re.compile(r"[-+]?[0-9]*\.[0-9]+", re.ASCII)
_YAML_WORDS = {"": None, "~": None, "null": None, "true": True, "false": False}


def read_document(path: str | os.PathLike[str], findings: Findings) -> Any:
    """Read a JSON file, or a YAML file if its name or its first character says so.

    ``-`` is the standard input. Returns None, with an error in ``findings``, if there is no usable content.
    """
    name = str(path)
    try:
        if name == "-":
            data = sys.stdin.buffer.read(LARGEST_DOCUMENT + 1)
        else:
            with open(path, "rb") as file:
                data = file.read(LARGEST_DOCUMENT + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        findings.note("file-unreadable", "file", name, message=f"the cluster file can't be read: {reason}")
        return None
    kind = os.path.splitext(name)[1].lower()
    return parse_document(data, findings, yaml={".json": False, ".yaml": True, ".yml": True}.get(kind))


def parse_document(data: bytes | str, findings: Findings, *, yaml: bool | None = False) -> Any:
    """Parse JSON or YAML; ``yaml=None`` decides by the first character. Returns None after an error."""
    if len(data) > LARGEST_DOCUMENT:
        findings.note("document-too-large", "document", f"over {LARGEST_DOCUMENT >> 20} MiB")
        return None
    text = _decode(data, findings)
    if text is None:
        return None
    if yaml is None:
        yaml = not text.lstrip().startswith(("{", "["))
    return _parse_yaml(text, findings) if yaml else _parse_json(text, findings)


def _decode(data: bytes | str, findings: Findings) -> str | None:
    try:
        # Windows editors put a byte order mark before UTF-8.
        text = data.decode("utf-8-sig") if isinstance(data, bytes) else data.removeprefix("\ufeff")
        text.encode()  # a lone surrogate: how Python shows bytes of the environment that are not UTF-8
    except UnicodeDecodeError as error:
        findings.note("not-utf8", f"byte {error.start}", f"0x{error.object[error.start]:02x}")
        return None
    except UnicodeEncodeError as error:
        findings.note("not-utf8", f"character {error.start}", error.object[error.start])
        return None
    return text


def _parse_json(text: str, findings: Findings) -> Any:
    values = text.count(",") + text.count("[") + text.count("{")
    if values > _MOST_VALUES:
        findings.note("document-too-large", "document", f"over {_MOST_VALUES} values")
        return None
    try:
        document = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        if "depth" in error.msg or "ecursion" in error.msg:
            findings.note("too-deep", where)
        else:
            line = text[max(0, error.pos - 20) : error.pos + 20] if text else ""
            findings.note("not-json", where, line, message=f"the document is not JSON: {error.msg}")
        return None
    if isinstance(document, dict):
        keys = len(document) + sum(len(part) for part in document.values() if isinstance(part, dict))
        # Every key ends like this. Only a text with more matches than keys needs the slow, exact check.
        if sum(1 for _ in _KEY_END.finditer(text)) > keys:
            _find_duplicates(text, findings)
    return document


def _find_duplicates(text: str, findings: Findings) -> None:
    def look(pairs: list[tuple[str, object]]) -> None:
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                findings.note("duplicate-key", "document", key)
            seen.add(key)

    try:
        json.loads(text, object_pairs_hook=look, parse_int=str, parse_float=str)
    except RecursionError:
        findings.note("too-deep", "document")


class _Unusable(Exception):
    """The YAML is unusable. The arguments are code, place and value of the finding."""


def _parse_yaml(text: str, findings: Findings) -> Any:
    # yaml.safe_load executes no code, but does not stop bombs: aliases that multiply, nesting that exhausts
    # the stack, and keys that silently replace each other. A cluster needs none of them, so events suffice.
    import yaml

    if len(text) > LARGEST_YAML:
        findings.note(
            "document-too-large", "document", f"YAML over {LARGEST_YAML >> 20} MiB", fix="write it as JSON"
        )
        return None
    try:
        events = yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        documents = [document for document, _ in _values(events, findings)]
        if len(documents) > 1:
            raise _Unusable("not-yaml", "document", f"{len(documents)} documents")
        return documents[0] if documents else None
    except _Unusable as stop:
        findings.note(*stop.args)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        problem = getattr(error, "problem", None) or getattr(error, "context", None)
        where = _place(mark) if mark else "document"
        if "nesting depth" in str(problem):  # the limit of libyaml in PyYAML 6.0.4
            findings.note("too-deep", where)
        else:
            message = f"the document is not YAML: {problem or str(error).splitlines()[0]}"
            findings.note("not-yaml", where, message=message)
    return None


def _place(mark: Any) -> str:
    return f"line {mark.line + 1}, column {mark.column + 1}"


def _values(events: Iterator[yaml.Event], findings: Findings, depth: int = 0) -> Iterator[tuple[Any, str]]:
    """Yield the values up to the end of a collection, or of the text, each with its place."""
    import yaml

    for event in events:
        where = _place(event.start_mark)
        if isinstance(event, yaml.CollectionEndEvent):
            return
        if isinstance(event, yaml.AliasEvent):
            raise _Unusable("yaml-alias", where, f"*{event.anchor}")
        if not isinstance(event, (yaml.ScalarEvent, yaml.CollectionStartEvent)):
            continue
        if event.anchor or event.tag not in (None, "!", "tag:yaml.org,2002:str"):
            raise _Unusable("yaml-alias", where, f"&{event.anchor}" if event.anchor else event.tag)
        if isinstance(event, yaml.CollectionStartEvent) and depth == _DEEPEST:
            raise _Unusable("too-deep", where, "")
        if isinstance(event, yaml.ScalarEvent):
            yield _scalar(event), where
        elif isinstance(event, yaml.SequenceStartEvent):
            yield [value for value, _ in _values(events, findings, depth + 1)], where
        else:
            yield _mapping(_values(events, findings, depth + 1), findings), where


def _mapping(values: Iterator[tuple[object, str]], findings: Findings) -> dict[object, object]:
    mapping: dict[object, object] = {}
    for key, where in values:
        if isinstance(key, (dict, list)):
            raise _Unusable("not-yaml", where, "a key that is not a scalar")
        if key in mapping:
            findings.note("duplicate-key", where, key)
        mapping[key], _ = next(values)
    return mapping


def _scalar(event: yaml.ScalarEvent) -> Any:
    text = event.value
    if event.style or event.tag:
        return text
    if text.lower() in _YAML_WORDS:
        return _YAML_WORDS[text.lower()]
    if _WHOLE.fullmatch(text):
        return int(text)
    return float(text) if _FLOAT.fullmatch(text[:40]) and len(text) <= 40 else text
