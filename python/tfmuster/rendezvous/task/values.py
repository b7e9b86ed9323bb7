"""Send the value of one task to the others, or of each to all, in pieces over the control channel."""

from __future__ import annotations

import base64

from ...cluster.spec import training_tasks
from ...errors import WorkerError
from ...keras_compat.agreement.refusals import refuse, refuse_absent
from .agreement import comparison_in, exchange
from .control_channel import ControlChannel

#: Bytes of values in one answer of the chief, which has at most 64 KiB.
_BYTES = 32 * 1024


def values_of_tasks(call: str, content: bytes, *, of_chief: bool) -> list[bytes]:
    """Return what the training tasks have sent, in the order of the cluster, or only what the chief has.

    All training tasks must make this call, such as ``gather``, equally often and in the same order. Raises
    DataError (reason ``workers-differ``) if one makes another call, or has finished its program.
    """
    control = ControlChannel.current()
    assert control is not None, "the task has joined its cluster"
    tasks = training_tasks(control.task.cluster)
    sends = control.task.is_chief or not of_chief
    size = max(1, _BYTES // (1 if of_chief else len(tasks)))
    whole: dict[str, bytes] = {}
    more = True
    while more:
        first, content = content[:size], content[size:]
        piece = [base64.b64encode(first).decode(), bool(content)] if sends else None
        reply = exchange(control, call, {}, piece=piece)
        if reply is None:
            raise WorkerError(f"The job has ended before {call} was done.", reason="ended")
        comparison = comparison_in(reply)
        refuse_absent(comparison.absent, f"call {call}")
        refuse(f"{call} begins", {difference.name: difference for difference in comparison.differences})
        pieces = dict(reply["pieces"])
        for task, (text, _) in pieces.items():
            whole[task] = whole.get(task, b"") + base64.b64decode(text)
        more = any(remains for _, remains in pieces.values())
    return [whole[task.name] for task in tasks if task.name in whole]
