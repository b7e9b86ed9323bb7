"""Check the language of the documentation: sentences of at most 30 words, and none of the phrases of PHRASES.

Tables, code, headings, headers and links' targets are left out. `make lint` runs it on all pages but UNREAD.
"""

from __future__ import annotations

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
    r"\bis none\b": "is not one; there is no ...",
    r"\bmay not be meant\b": "is probably a mistake",
    r"\bat most so (often|many)\b": "at most N times",
    r"\b(wishe?s? for|in vain|anew)\b": "again; without success",
    r"\bhas (all|what) (that )?a launch has\b": "say what",
    r"\bof (its|their|your|his) own accord\b": "by itself",
    r"\b(nobody|somebody|everybody) (has to|must)\b": "you do not have to",
    r"\bwhat is more\b": "also",
    r"\bby then\b": "name the time",
    r"\butili[sz]e[sd]?\b": "use",
    r"\bin order to\b": "to",
    r"\bplease\b": "leave it out",
    r"\b(simply|just|easily|obviously) (run|call|use|add|install)\b": "leave it out",
}
#: Pages that are still to be read for this. Take a page out of here when it passes.
UNREAD = {"docs/performance.md"}


def pages() -> list[str]:
    """Return all Markdown that users and developers read."""
    listed = ["git", "ls-files", "-co", "--exclude-standard", "--", "*.md", "*.Rmd"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return sorted(name for name in names if not name.startswith("tests/") and (ROOT / name).exists())


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


def plain(text: str) -> str:
    """Leave out the marks: code counts as one word, a link as its text."""
    text = re.sub(r"``[^`]+``|`[^`]+`", "CODE", text)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return re.sub(r"[*_]{1,2}(\S[^*_]*)[*_]{1,2}", r"\1", text)


def sentences(text: str) -> list[str]:
    return re.split(r"(?<=[.!?:])\)?\s+(?=[A-Z(\"']|tfmuster)", text)


def findings(name: str) -> Iterator[str]:
    text = (ROOT / name).read_text(encoding="utf-8")
    for line, paragraph in paragraphs(text):
        prose = plain(paragraph)
        for sentence in sentences(prose):
            words = re.findall(r"[\w'’/.%-]*\w[\w'’/.%-]*", sentence)
            if len(words) > MOST_WORDS:
                yield f"{name}:{line}: a sentence of {len(words)} words: {' '.join(words[:8])} ..."
        for phrase, instead in PHRASES.items():
            if found := re.search(phrase, prose, re.IGNORECASE):
                yield f"{name}:{line}: {found[0]!r}: {instead}"


def main(names: list[str]) -> int:
    found = [
        text for name in names or [page for page in pages() if page not in UNREAD] for text in findings(name)
    ]
    print("\n".join(found) or "The language of the documentation: nothing found.")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
