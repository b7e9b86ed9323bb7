"""A Python function on other machines, which share no files with the session."""

from __future__ import annotations

import sys

import pytest

from support.hosts import Network
from support.launching import write

pytestmark = pytest.mark.timeout(120)


def test_on_other_machines_that_share_nothing(network: Network) -> None:
    write(
        network.work,
        "mine.py",
        "import os",
        "OFFSET = 40",
        "def call(x):",
        "    return os.uname().nodename, OFFSET + x",
    )
    program = write(
        network.work,
        "program.py",
        "import mine",
        "from tfmuster import Ssh, launch",
        "if __name__ == '__main__':",
        "    values = launch(mine.call, 2, on=Ssh('node1,node2'), quiet=True)",
        "    print('got', *values.values())",
    )
    said = network.run_here(sys.executable, program)
    assert said.strip().endswith("got ('node1', 42) ('node2', 42)")


def test_values_of_other_machines_are_data(network: Network) -> None:
    """Arrays, histories and models come back; an object of the program's own only from trusted hosts."""
    program = write(
        network.work,
        "program.py",
        "import sys",
        "import numpy as np",
        "from tfmuster import Ssh, launch",
        "class Own:",
        "    def __reduce__(self):",
        "        return print, ('RUN BY READING',)",
        "def data(strategy):",
        "    import keras",
        "    with strategy.scope():",
        "        model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])",
        "    return {'array': np.arange(3), 'model': model, 'pair': (1, 'a')}",
        "def fails():",
        "    raise KeyError('no such digit')",
        "if __name__ == '__main__':",
        "    run = lambda f, **more: launch(f, on=Ssh('node1,node2', **more), quiet=True)",
        "    values = run(data)",
        "    first, second = values.values()",
        "    array, model, pair = first['array'].tolist(), type(first['model']).__name__, first['pair']",
        "    print('got', array, model, second['model'], pair)",
        "    try:",
        "        run(fails)",
        "    except Exception as error:",
        "        print('cause', repr(error.__cause__))",
        "    try:",
        "        run(Own)",
        "    except Exception as error:",
        "        print('refused', 'value is a' in str(error), 'trust_hosts=True' in str(error))",
        "    print('before', flush=True)",
        "    print('trusted', dict(run(Own, trust_hosts=True)))",
    )
    lines = network.run_here(sys.executable, program).splitlines()
    first, rest = lines[: lines.index("before")], lines[lines.index("before") + 1 :]
    assert first[-3:] == [
        "got [0, 1, 2] Sequential None (1, 'a')",
        "cause KeyError('no such digit')",
        "refused True True",
    ]
    assert "RUN BY READING" not in first
    assert rest == ["RUN BY READING", "RUN BY READING", "trusted {'worker 0': None, 'worker 1': None}"]


def test_a_host_has_nothing_run_on_the_launching_machine(network: Network) -> None:
    """A worker that puts a pickle in the place of its value, and files of the launcher's into its run."""
    program = write(
        network.work,
        "program.py",
        "import os, pathlib, pickle",
        "from tfmuster import Ssh, launch",
        "class Evil:",
        "    def __reduce__(self):",
        "        return exec, (\"open('trace', 'w').close()\",)",
        "def attack():",
        "    run = pathlib.Path(os.environ['TFMUSTER_RUN_DIR'])",
        "    (run / 'call').mkdir(exist_ok=True)",
        "    evil = pickle.dumps({'value': Evil()})",
        "    for name in ('worker-0.pkl', 'worker-0.value', 'any-values', 'call.pkl'):",
        "        (run / 'call' / name).write_bytes(evil)",
        "    (run / 'stop').touch()",
        '    (run / \'stop.json\').write_text(\'{"command": ["touch", "trace"]}\')',
        "    (run / 'kept.txt').touch()",
        "    import time",
        "    time.sleep(2)",
        "    # Its own end must not write a value over these.",
        "    os._exit(0)",
        "if __name__ == '__main__':",
        "    try:",
        "        launch(attack, on=Ssh('node1'), quiet=True, run_dir='run')",
        "    except Exception as error:",
        "        print(error.fields.get('reason'))",
    )
    said = network.run_here(sys.executable, program)
    assert said.splitlines()[-1] == "not-plain"
    assert not (network.work / "trace").exists()
    names = {path.name for path in (network.work / "run").iterdir()}
    assert "kept.txt" in names
    assert not names & {"stop", "stop.json"}
    assert not (network.work / "run" / "call" / "any-values").exists()
