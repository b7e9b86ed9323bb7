"""What a progress bar gets of a job."""

from __future__ import annotations

from tfmuster.launcher.supervise.display import progress_snapshot
from tfmuster.tracking.live.states import State


def test_a_progress_bar_gets_the_fields_of_one_task() -> None:
    training = State("training", epoch=2, epochs=3, step=4, steps=9, metrics={"loss": 2.0})
    waiting = State("waiting", waiting=("worker 1",))

    def snapshot(*states: State) -> tuple:
        found = progress_snapshot(
            [(f"worker {i}", "h", each) for i, each in enumerate(states)], ["epoch 1"], 61
        )
        assert found["epoch_lines"] == ["epoch 1"]
        assert (found["sign_of_life"] is None) == (not states)
        names = ("phase", "text", "text_beside_bar", "epoch", "epochs", "step", "steps")
        return tuple(found[name] for name in names)

    shown = ("training", "training  epoch 2/3  step 4/9  loss 2.0000", "epoch 2/3  loss 2.0000", 2, 3, 4, 9)
    nowhere = (None, None, None, None)
    assert snapshot(State("done"), training) == shown
    text = "waiting for worker 1"
    assert snapshot(State("done"), training, waiting) == ("waiting", text, text, *nowhere)
    assert snapshot(State("stopped")) == ("stopped", "stopped by a signal", "stopped by a signal", *nowhere)
    rows = [("worker 0", "h", training)]
    assert progress_snapshot(rows, [], 61)["sign_of_life"] == (
        "tfmuster: running for 1 min 1 s; worker 0: training  epoch 2/3  step 4/9  loss 2.0000"
    )
    assert progress_snapshot(rows, [], 61)["start"] is None
    rows = [("worker 0", "h", State("building", seconds=3.0))]
    told = "tfmuster: starting for 61 s; worker 0: making the model"
    assert progress_snapshot(rows, [], 61)["start"] == told
    assert snapshot() == ("", "", "", *nowhere)
