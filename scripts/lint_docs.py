"""Check the language of the documentation: sentences of at most 30 words, and none of the phrases of PHRASES.

Tables, code, headings, headers and links' targets are left out. `make lint` runs it on all pages,
on the comments that R's manual is made of, on the docstrings of Python's public names, on the table
of errors, on the messages in Python, on the help of the command line, on the report and on the cheat sheet.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MOST_WORDS = 30
#: What plain technical English says in another way, and what it says.
PHRASES = {
    r"\bmend(s|ed|ing)?\b": "correct, repair, fix",
    r"\btaken? away\b": "remove, reclaim",
    r"\bwho is missing\b": "which workers are missing",
    r"\bby hand\b": "manually, or how",
    r"\bgo(es)? along\b": "are sent with it",
    r"(?-i:\bis none\b)": "is not one; there is no ...",
    r"\bmay not be meant\b": "is probably a mistake",
    r"\bat most so (often|many)\b": "at most N times",
    r"\b(wishe?s? for|in vain|anew)\b": "again; without success",
    r"\bhas (all|what) (that )?a launch has\b": "say what",
    r"\bof (its|their|your|his) own accord\b": "by itself",
    r"\b(nobody|somebody|everybody) (has to|must)\b": "you do not have to",
    r"\bwhat is more\b": "also",
    r"\bby then\b": "name the time",
    r"\b(go(es|ing)?|went) on\b": "continue",
    r"\bdo(es)? without\b": "does not use",
    r"\bwere at hand\b|\bwas at hand\b": "was available",
    r"\b(was|were) tried, and left\b": "tried and dropped",
    r"\bthe like\b": "similar ...",
    r"\butili[sz]e[sd]?\b": "use",
    r"\bin order to\b": "to",
    r"\bplease\b": "leave it out",
    r"\b(simply|just|easily|obviously) (run|call|use|add|install)\b": "leave it out",
}


def pages() -> list[str]:
    """Return all Markdown that users and developers read."""
    listed = ["git", "ls-files", "-co", "--exclude-standard", "--", "*.md", "*.Rmd"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    found = [name for name in names if not name.startswith("tests/") and (ROOT / name).exists()]
    r_code = [str(path.relative_to(ROOT)) for path in (ROOT / "R").glob("*.R")]
    return sorted([*found, *r_code, "vignettes/troubles.json"])


def paragraphs(text: str) -> Iterator[tuple[int, str]]:
    """Yield the first line and the text of each paragraph and list item that is prose."""
    fence = ""
    lines: list[str] = []
    first = 0
    header = text.startswith("---\n")
    for number, line in enumerate([*text.splitlines(), ""], 1):
        bare = line.strip()
        if header:
            header = not (number > 1 and bare == "---")
            continue
        if fence:
            fence = "" if bare.startswith(fence) and not bare.strip(fence[0]) else fence
            continue
        if opened := re.match(r"(`{3,}|~{3,})", bare):
            fence = opened[1]
        code = line.startswith("    ") and not lines
        item = re.match(r"([-*]|\d+\.) ", bare)
        if fence or code or item or not bare or bare[0] in "|#<" or bare.startswith((":::", ":sync", "![")):
            if lines:
                yield first, " ".join(lines)
            lines = []
        if (
            bare
            and not fence
            and not code
            and bare[0] not in "|#<"
            and not bare.startswith(("::", ":sync", "!["))
        ):
            if not lines:
                first = number
            lines.append(bare[item.end() :] if item else bare)
    if lines:
        yield first, " ".join(lines)


def roxygen(text: str) -> Iterator[tuple[int, str]]:
    """Yield the paragraphs of the comments that R's manual is made of, without the examples."""
    lines: list[str] = []
    first = 0
    example = False
    for number, line in enumerate([*text.splitlines(), ""], 1):
        bare = line[2:].strip() if line.startswith("#'") else ""
        tag = re.match(r"@(\w+)(?: \S+(?= ))?|\\item\{[^}]*\}|[-*] ", bare)
        if lines and (tag or not bare):
            yield first, " ".join(lines)
            lines = []
        if not line.startswith("#'"):
            example = False
        elif tag:
            example = tag[0].startswith(("@example", "@usage", "@section"))
            bare = bare[tag.end() :].strip()
        if bare and not example:
            first = first if lines else number
            lines.append(bare)


def errors(text: str) -> Iterator[tuple[int, str]]:
    """Yield the texts of the table of errors."""
    for number, row in enumerate(json.loads(text), 1):
        for part in ("text", "cause", "fix"):
            yield number, str(row[part])


def docstring(text: str) -> Iterator[str]:
    """Yield the paragraphs of a docstring in numpydoc's form, without names, types and examples."""
    lines: list[str] = []
    section = ""
    given = inspect.cleandoc(text).splitlines()
    for line, below in zip(given, [*given[1:], ""], strict=True):
        if re.fullmatch(r"-{3,}", below):
            section = line
        # In a section, names stand at the margin, and what they are is indented.
        names = section != "" and section not in ("Notes", "See Also") and not line.startswith(" ")
        ended = not line.strip() or names or bool(re.match(r" *[-*] ", line))
        if ended and lines:
            yield " ".join(lines)
            lines = []
        if line.strip() and not names and section != "Examples":
            lines.append(re.sub(r"^[-*] ", "", line.strip()))
    if lines:
        yield " ".join(lines)


def docstrings() -> Iterator[tuple[str, str]]:
    """Yield the paragraphs of the docstrings of Python's public names, and of the members of its classes."""
    sys.path.insert(0, str(ROOT / "python"))
    import tfmuster

    for name in sorted(tfmuster.MODULE_OF):
        thing = getattr(tfmuster, name)
        members = vars(thing) if isinstance(thing, type) else {}
        documented = {name: thing, **{f"{name}.{of}": members[of] for of in members if of[0] != "_"}}
        for place, each in documented.items():
            # Of a classmethod, the function.
            text = getattr(getattr(each, "__func__", each), "__doc__", None)
            if isinstance(text, str) and (callable(each) or isinstance(each, (property, classmethod))):
                yield from ((f"tfmuster.{place}", paragraph) for paragraph in docstring(text))


def help_texts() -> Iterator[tuple[str, str]]:
    """Yield the paragraphs of the help of each command, and the help of each option."""
    sys.path.insert(0, str(ROOT / "python"))
    import click

    from tfmuster.cli import cli

    def of(command: click.Command, name: str) -> Iterator[tuple[str, str]]:
        text = re.sub(r"\x08\n.*?(?:\n\n|\Z)", "", (command.help or "") + "\n\n", flags=re.S)
        yield from ((name, part.replace("\n", " ")) for part in text.split("\n\n"))
        for option in command.params:
            yield f"{name} --{option.name}", getattr(option, "help", None) or ""
        if isinstance(command, click.Group):
            context = click.Context(command)
            for each in command.list_commands(context):
                if (found := command.get_command(context, each)) is not None:
                    yield from of(found, f"{name} {each}")

    yield from of(cli, "tfmuster")


#: Functions whose arguments are messages, besides the classes of errors and warnings.
SAY = ("Words", "say", "say_note", "tell", "refused", "echo", "warn")


def messages() -> Iterator[tuple[str, str]]:
    """Yield the texts of errors, warnings and notes in the Python package."""

    def text(node: ast.expr) -> str:
        parts = node.values if isinstance(node, ast.JoinedStr) else [node]
        values = [part.value if isinstance(part, ast.Constant) else "CODE" for part in parts]
        return "".join(map(str, values)) if values != ["CODE"] else ""

    for path in sorted((ROOT / "python" / "tfmuster").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            if name.endswith(("Error", "Warning")) or name in SAY:
                parts = (word.value for word in node.keywords if word.arg in ("message", "found", "fix"))
                for part in (*node.args, *parts):
                    yield f"{path.relative_to(ROOT)}:{part.lineno}", text(part)


def web_pages() -> Iterator[tuple[str, str]]:
    """Yield the lines of the cheat sheet and of the report's template, without their tags."""
    for name in ("docs/cheatsheet.html", "python/tfmuster/tracking/show/report/templates/page.html"):
        page = re.sub(r"<(style|script)\b.*?</\1>", "", (ROOT / name).read_text(encoding="utf-8"), flags=re.S)
        for number, line in enumerate(re.sub(r"\{[{%#].*?[}%#]\}|<[^>]*>", " ", page).splitlines(), 1):
            yield f"{name}, line {number}", line


def plain(text: str) -> str:
    """Leave out the marks: code counts as one word, a link as its text."""
    text = re.sub(r"``[^`]+``|`[^`]+`", "CODE", text)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return re.sub(r"[*_]{1,2}(\S[^*_]*)[*_]{1,2}", r"\1", text)


def sentences(text: str) -> list[str]:
    return re.split(r"(?<=[.!?:])\)?\s+(?=[A-Z(\"']|tfmuster)", text)


def in_prose(place: str, paragraph: str, *, lists: bool = False) -> Iterator[str]:
    """Yield what is found in a paragraph; with `lists`, a semicolon ends an item of an enumeration."""
    prose = plain(paragraph)
    for sentence in sentences(prose):
        for part in sentence.split(";") if lists else [sentence]:
            words = re.findall(r"[\w'’/.%-]*\w[\w'’/.%-]*", part)
            if len(words) > MOST_WORDS:
                yield f"{place}: a sentence of {len(words)} words: {' '.join(words[:8])} ..."
    for phrase, instead in PHRASES.items():
        if found := re.search(phrase, prose, re.IGNORECASE):
            yield f"{place}: {found[0]!r}: {instead}"


def findings(name: str) -> Iterator[str]:
    text = (ROOT / name).read_text(encoding="utf-8")
    read = {".R": roxygen, ".json": errors}.get(Path(name).suffix, paragraphs)
    for line, paragraph in read(text):
        yield from in_prose(f"{name}:{line}", paragraph, lists=read is not paragraphs)


def main(names: list[str]) -> int:
    found = [text for name in names or pages() for text in findings(name)]
    if not names:
        found += [text for place, paragraph in help_texts() for text in in_prose(place, paragraph)]
        for texts in (docstrings, messages, web_pages):
            found += [text for place, said in texts() for text in in_prose(place, said, lists=True)]
    print("\n".join(found) or "The language of the documentation: nothing found.")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
