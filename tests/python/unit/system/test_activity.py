"""What a process does, in words, and whether it moves."""

from __future__ import annotations

import re
import time

import pytest

from tfmuster.system.activity import Activity, place_text


def test_calls_are_nested():
    activity = Activity()
    with activity.call("fit", epoch=2, epochs=3) as place:
        place["step"] = 5
        with activity.call("evaluate"):
            assert activity.report()["call"] == "evaluate"
        with activity.execution():
            said = activity.report()
    assert (said["call"], said["step"], said["inside"], said["executions"]) == ("fit", 5, True, 1)
    assert place_text(said) == "in fit, epoch 2 of 3, step 5, inside a step or another TensorFlow call"
    text = place_text(activity.report())
    place = r"\(.*test_activity\.py, line \d+: text = place_text\(activity\.report\(\)\)\)"
    assert re.fullmatch(rf"outside of fit, evaluate, and predict, not in TensorFlow {place}", text)


def test_another_library_tells_itself_whether_the_process_waits():
    activity = Activity()
    inside = [True]
    activity.waits_in("JAX", lambda: inside[0])
    with activity.call("fit"):
        said = activity.report()
        assert activity.waits and said["unchanged"] == said["still"]
        assert place_text(said) == "in fit, inside a step or another JAX call"
        inside[0] = False
        assert place_text(activity.report()) == "in fit, between two steps"
    assert "outside of fit, evaluate, and predict, not in JAX (" in place_text(activity.report())


def test_an_error_leaves_the_execution():
    activity = Activity()
    with pytest.raises(ValueError), activity.call("fit"), activity.execution():
        raise ValueError
    assert not activity.waits and not activity.place()


def test_a_process_that_sleeps_is_still_and_one_that_computes_or_changes_is_not():
    activity = Activity()
    activity.report()
    time.sleep(0.5)
    assert activity.report()["still"] > 0.4
    until = time.process_time() + 0.4
    while time.process_time() < until:
        pass
    assert activity.report()["still"] < 0.1
    time.sleep(0.3)
    activity.changed()
    assert activity.report()["still"] < 0.1
