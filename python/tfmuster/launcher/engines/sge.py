"""Run a job by Sun Grid Engine: ``qsub -pe`` submits it, and ``qrsh -inherit`` starts an agent on each slot.

For all of its descendants: Son of Grid Engine, Open Grid Scheduler, Univa and Altair Grid Engine. Commands
and variables are those of qsub(1), qrsh(1) and sge_pe(5).
"""

from __future__ import annotations

import re
import shlex
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass

from ...cluster.resolvers.batch import SGE
from ...errors import LaunchError, TfmusterError
from ...options.hints import Hint
from ...system.ask import NoAnswerError, ask
from ...words import Words
from ..job import Job
from .batch import BatchEngine
from .batch_commands import phases

_NAMED = Hint("backend_options", "-pe NAME", "sge")
_TURNED_OFF = "information is turned off"
_ENVIRONMENT = re.compile(r"(?:^|\s)-pe(?:\s+(?P<name>[^\s-]\S*))?(?:\s+(?P<slots>[0-9][-0-9]*))?(?=\s|$)")
#: How long the accounting may take to have a job that is over, and how long to be searched, seconds.
_ACCOUNTING_SECONDS, _SEARCH_SECONDS = 5.0, 30.0


@dataclass(frozen=True)
class Sge(BatchEngine):
    """Has Grid Engine run a job."""

    SYSTEM = SGE
    #: Messages of the cluster's own may come before the number.
    SUBMIT, NUMBER = ("qsub", "-terse"), r"(?:^|\s)([0-9]+)\s*$"
    STATE, GONE = ("qstat", "-j"), "do not exist"
    PHASES = phases(waiting="scheduling", stuck="error")
    MORE_COMMANDS, SERVER = ("qconf",), "qmaster"
    INSTALL = "apt-get install gridengine-client, on a machine of a Grid Engine cluster"
    CHECK = "`qconf -spl` names its parallel environments, `qstat -f` shows its queues."
    CHOOSING_HOSTS = Hint("backend_options", "-l hostname=node1|node2", "sge")
    MARK, NAMED, ARRAY = "#$", ("-N", 100), r"-t\s"
    OPTIONS = ("-S /bin/sh", "-cwd", "-V", "-r n", "-notify", "-j y")
    REMOTE_SHELL, MORE_SLOTS = ("qrsh", "-inherit"), "Ask qsub for more (-pe NAME N)"
    #: With -notify, what announces the end of a job, and of its soft limits.
    IGNORED = ("USR1", "USR2", "XCPU")

    def machines(self, job: Job) -> list[str]:
        """See :class:`.batch.BatchEngine`. An option names the parallel environment, or there is only one."""
        options, tasks = self.where.backend_options, len(job.kinds)
        named = [match for option in options for match in _ENVIRONMENT.finditer(option)]
        others = [rest for option in options if (rest := _ENVIRONMENT.sub("", option)).strip()]
        if named:
            names, slots = ({match[group] for match in named} for group in ("name", "slots"))
            if len(names) > 1 or None in names or not slots <= {None, str(tasks)}:
                raise LaunchError(
                    "The option -pe names the parallel environment; tfmuster adds the number of slots.",
                    found=f"{' and '.join(match[0].strip() for match in named)}, for {tasks} tasks",
                    fix=Words("Give one name and no number: {}.", _NAMED),
                    reason="batch",
                )
            return [f"-pe {names.pop()} {tasks}", *others]
        answer = self.ask("qconf", "-spl")
        there = answer.output.split() if answer and not answer.code else []
        if len(there) == 1:
            return [f"-pe {there[0]} {tasks}", *others]
        if tasks == 1:
            return others
        why = answer.errors.strip() if answer else "qconf does not answer"
        raise LaunchError(
            "Grid Engine must know in which parallel environment the tasks are to run.",
            found=f"there are {', '.join(there)}" if there else why or "there is no parallel environment",
            fix=Words("Name one: {}. `qconf -sp NAME` shows how it places tasks.", _NAMED),
            reason="batch",
        )

    def body(self, command: Sequence[str]) -> list[str]:
        """Return the launcher in the background, and a shell in front that passes on the signals of the end.

        Grid Engine ends a job by SIGKILL, and with -notify sends SIGUSR2 some time before.
        """
        passed = " ".join(self.IGNORED)
        return [
            f"(trap '' {passed}; exec {shlex.join(command)}) &",
            "launcher=$!",
            f"trap 'kill $launcher' {passed}",
            "wait $launcher; code=$?",
            # A signal ends the waiting, and not the launcher.
            "while kill -0 $launcher 2>/dev/null; do wait $launcher; code=$?; done",
            "exit $code",
        ]

    def word_for(self, number: str, text: str) -> tuple[str, str]:
        """See :class:`.batch_commands.BatchCommands`. There is no word: lines come and go with the state."""
        # What the job's variables hold comes before that, and may look like anything.
        lines = [line.partition(":")[::2] for line in text.rpartition("\njob_type:")[2].splitlines()]
        known = {name.split()[0]: value.strip() for name, value in lines if name.strip()}
        word = next((name for name in ("error", "usage", "exec_host_list") if name in known), "scheduling")
        why = known.get(word, "")
        return word, "" if _TURNED_OFF in why else why

    def ending(self, number: str, host: str) -> str:
        """Return what the accounting says, if it can be read here."""
        unknown = f"`qacct -j {number}` says why, where the accounting can be read"
        if shutil.which("qacct") is None:
            return unknown
        end = time.monotonic() + _ACCOUNTING_SECONDS
        while True:
            answer = self.ask("qacct", "-j", number, seconds=_SEARCH_SECONDS)
            entry = _entry(answer.output if answer and not answer.code else "", host)
            if entry or answer is None or time.monotonic() > end:
                break
            time.sleep(0.2)
        fields = [(name, entry[name]) for name in ("failed", "exit_status") if entry.get(name, "0") != "0"]
        return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in fields) or unknown

    def explain(self, count: int, text: str, lines: str) -> TfmusterError:
        """See :class:`.batch.BatchEngine`."""
        if "didn't accept task" not in text:
            return super().explain(count, text, lines)
        return LaunchError(
            "The parallel environment must let `qrsh -inherit` start a task on each slot.",
            found=lines,
            fix="Choose one with `control_slaves TRUE` (`qconf -sp NAME`), and run one launcher in a job.",
            reason="batch",
        )

    def version(self, seconds: float) -> str:
        """Return the version and the parallel environments."""
        # It ends with an error where no cluster is configured.
        version = ask("qstat", "-help", seconds=seconds).first_line
        answer = ask("qconf", "-spl", seconds=seconds)
        if answer.code and "no parallel environment" not in answer.errors:
            raise NoAnswerError(answer.first_line)
        return f"{version}, parallel environments: {', '.join(answer.output.split()) or 'none'}"


make_engine, available = Sge, Sge().available


def _entry(text: str, host: str) -> dict[str, str]:
    """Return the job's own entry in what qacct prints; empty, if there is none yet.

    Others are of the tasks that `qrsh -inherit` has started, none of them on the host of the launcher.
    """
    entries = []
    for part in re.split("^=+$", text, flags=re.MULTILINE):
        lines = [line.split(None, 1) for line in part.splitlines()]
        entries.append({words[0]: " ".join(words[1].split()) for words in lines if len(words) == 2})
    name = host.partition(".")[0]
    entries = [entry for entry in entries if entry]
    of_host = [entry for entry in entries if name in ("", entry.get("hostname", "").partition(".")[0])]
    return of_host[-1] if of_host else {}
