"""The tally of all results, as a part of a page."""

from __future__ import annotations

from collections import Counter
from typing import Any

from .outcomes import OUTCOMES


def table_of(results: dict[str, dict[str, Any]]) -> str:
    """Return Markdown: outcomes by source, then the reasons of what is not equal."""
    sources = sorted({key.partition("/")[0] for key in results})
    lines = [f"| source | programs | {' | '.join(OUTCOMES)} |", "|---" * (len(OUTCOMES) + 2) + "|"]
    for source in [*sources, ""]:
        counts = Counter(value["outcome"] for key, value in results.items() if key.startswith(source))
        cells = " | ".join(str(counts[outcome]) for outcome in OUTCOMES)
        lines.append(f"| {source or 'all'} | {counts.total()} | {cells} |")
    ran = {key: value for key, value in results.items() if value["outcome"] != "not here"}
    good = sum(value["outcome"] in ("equal", "refused") for value in ran.values())
    lines += ["", f"{good} of {len(ran)} programs that run in one process are equal or refused.", ""]
    for outcome in OUTCOMES[1:]:
        of_it = {key: value for key, value in results.items() if value["outcome"] == outcome}
        lines += _reasons(outcome, of_it)
    return "\n".join(lines) + "\n"


def _reasons(outcome: str, results: dict[str, dict[str, Any]]) -> list[str]:
    if not results:
        return []
    by_reason: dict[str, list[str]] = {}
    for key, value in results.items():
        by_reason.setdefault(value["reason"].replace("|", "/"), []).append(key)
    rows = [
        f"| {reason} | {len(keys)} | {', '.join(keys[:3])}{', ...' if len(keys) > 3 else ''} |"
        for reason, keys in sorted(by_reason.items(), key=lambda item: -len(item[1]))
    ]
    return [f"## {outcome.capitalize()}", "", "| reason | programs | such as |", "|---|---|---|", *rows, ""]
