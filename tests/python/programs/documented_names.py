"""Run the examples of Python's names: documented_names.py PAGE. They are one session, in their order."""

import doctest
import re
import sys
from pathlib import Path

import tfmuster

OPTIONS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
session = {"tfmuster": tfmuster}
failed = 0
text = Path(sys.argv[1]).read_text(encoding="utf-8")
for name, code in re.findall(r"^## (\w+)\n.*?^```pycon\n(.*?)^```", text, re.M | re.S):
    test = doctest.DocTestParser().get_doctest(code, session, name, None, 0)
    runner = doctest.DocTestRunner(optionflags=OPTIONS)
    failed += runner.run(test, clear_globs=False).failed
    session.update(test.globs)
    print("ran", name)
sys.exit(failed > 0)
