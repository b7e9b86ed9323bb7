"""Run published programs in one process and on two workers, and compare everything that they compute.

Usage: PYTHONPATH=benchmarks python -m programs FOLDER... --results FILE.json [--only TEXT] [--again OUTCOME]
       [--jobs N] [--seconds N] [--table FILE.md]

A folder has the notebooks or scripts of one source, and its name is the name of the source. The programs
are not part of this repository. Each is made into a script (``scripts.py``), with small data of the same
shapes and few steps of training (``inside/stand_ins``). It runs as stock Keras in one process, and by
``tfmuster launch -n 2 --distribute`` (``running.py``). What each call of ``fit``, ``evaluate`` and
``predict`` returned, and the weights after it, are compared (``comparing.py``), and an outcome is
decided (``outcomes.py``). The results are kept in a JSON file; a program that is in it is not run again
without ``--again``.
"""
