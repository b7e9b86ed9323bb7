"""The page with the tally of all results."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from .outcomes import OUTCOMES

#: A folder of the machine that ran them.
_PATH = re.compile(r"/(?:srv|tmp|root|home|work)[/\w.-]*")
_HEAD = """# Published programs

This page is for people who change how tfmuster trains. `benchmarks/programs` runs a folder of notebooks and
scripts that others have published. Each program runs as stock Keras in one process, and on two workers of
`tfmuster launch -n 2 --distribute`. The data sets are replaced by small ones of the same shapes, and training
takes two epochs of a few batches. All that `fit`, `evaluate` and `predict` return is compared, and so are
the weights after each call. The programs are not part of this repository.

```bash
PYTHONPATH=benchmarks python -m programs FOLDER... --results results.json --table table.md
```

A folder is a source, and its name is in the table.

| outcome | meaning |
|---|---|
| equal | The two workers return what one process returns, and have its weights. |
| refused | tfmuster ends the job with an error of its own. |
| differs | A number or a weight differs by more than rounding. |
| failed | The job ends with another error, which one process does not have. |
| hangs | The job does not end in its time. |
| not here | The program does not run in one process: data or packages are missing, or it is too large. |

## Tally
"""


def table_of(results: dict[str, dict[str, Any]]) -> str:
    """Return Markdown: outcomes by source, then the reasons of what is not equal."""
    sources = sorted({key.partition("/")[0] for key in results})
    lines = [_HEAD, f"| source | programs | {' | '.join(OUTCOMES)} |", "|---" * (len(OUTCOMES) + 2) + "|"]
    for source in [*sources, ""]:
        counts = Counter(
            value["outcome"] for key, value in results.items() if source in ("", key.partition("/")[0])
        )
        cells = " | ".join(str(counts[outcome]) for outcome in OUTCOMES)
        lines.append(f"| {source or 'all'} | {counts.total()} | {cells} |")
    ran = {key: value for key, value in results.items() if value["outcome"] != "not here"}
    good = sum(value["outcome"] in ("equal", "refused") for value in ran.values())
    lines += ["", f"{good} of {len(ran)} programs that run in one process are equal or refused.", ""]
    for outcome in OUTCOMES[1:]:
        of_it = {key: value for key, value in results.items() if value["outcome"] == outcome}
        lines += _reasons(outcome, of_it)
    return "\n".join(lines) + "\n"


def _reason(result: dict[str, Any]) -> str:
    if str(result.get("without_tf_random")).startswith("equal"):
        return "tf.random: equal with the numbers of keras.random"
    text = str(result["reason"])
    return ": ".join(text.split(": ")[:2])[len("call-000-") :] if text.startswith("call-") else text


def _reasons(outcome: str, results: dict[str, dict[str, Any]]) -> list[str]:
    if not results:
        return []
    by_reason: dict[str, list[str]] = {}
    for key, value in results.items():
        by_reason.setdefault(_PATH.sub("...", _reason(value)).replace("|", "/"), []).append(key)
    rows = [
        f"| {reason} | {len(keys)} | {', '.join(keys[:3])}{', ...' if len(keys) > 3 else ''} |"
        for reason, keys in sorted(by_reason.items(), key=lambda item: -len(item[1]))
    ]
    return [f"## {outcome.capitalize()}", "", "| reason | programs | such as |", "|---|---|---|", *rows, ""]
