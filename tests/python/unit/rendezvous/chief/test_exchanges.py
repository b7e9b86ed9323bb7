"""The chief's side of an exchange: documents in, answers out."""

from __future__ import annotations

import orjson
import pytest

from tfmuster.net.channel import MAX_PAYLOAD
from tfmuster.rendezvous.chief.exchanges import MAX_DIFFERENCES, MAX_TASKS, MAX_VALUE, Exchanges

TASKS = ("worker 0", "worker 1", "worker 2")


def offer(exchanges, task, document, *, number=1, about="fit", limit=None, now=0.0):
    message = {"number": number, "about": about, "document": document, "limit": limit}
    return exchanges.offer(task, message, now)


def answer_of(tasks, documents, **options):
    exchanges = Exchanges(tasks)
    answers = []
    for task, document in zip(tasks, documents, strict=True):
        assert answers == []
        answers = offer(exchanges, task, document, **options)
    assert [task for task, _ in answers] == list(tasks) and not exchanges.open
    return answers[0][1]


def test_equal_documents_have_no_differences_whatever_the_order_of_their_keys():
    documents = [{"steps": 3, "spec": {"a": 1, "b": 2}}] * 2 + [{"spec": {"b": 2, "a": 1}, "steps": 3}]
    assert answer_of(TASKS, documents)["differ"] == []


def test_a_difference_names_each_value_with_its_tasks():
    said = answer_of(TASKS, [{"steps": 81}, {"steps": 78}, {"steps": 81}])
    assert said["differ"] == [["steps", [[81, ["worker 0", "worker 2"]], [78, ["worker 1"]]]]]


def test_an_entry_that_a_task_does_not_have_differs():
    said = answer_of(TASKS[:2], [{"rows": 5}, {}])
    assert said["differ"] == [["rows", [[5, ["worker 0"]], [None, ["worker 1"]]]]]


def test_different_calls_differ():
    exchanges = Exchanges(TASKS[:2])
    offer(exchanges, "worker 0", {}, about="fit")
    ((_, said), _) = offer(exchanges, "worker 1", {}, about="evaluate")
    assert said["differ"] == [["call", [["fit", ["worker 0"]], ["evaluate", ["worker 1"]]]]]


def test_an_answer_is_bounded():
    tasks = tuple(f"worker {index}" for index in range(200))
    documents = [{f"key {k}" * 20: f"{index}" * 200 for k in range(40)} for index in range(200)]
    said = answer_of(tasks, documents)
    assert len(said["differ"]) == MAX_DIFFERENCES
    assert all(len(v) <= MAX_VALUE and len(t) <= MAX_TASKS for _, values in said["differ"] for v, t in values)
    assert len(orjson.dumps(said)) < MAX_PAYLOAD


def test_who_is_late_is_named_and_hears_the_same_when_it_comes():
    exchanges = Exchanges(TASKS)
    offer(exchanges, "worker 0", {"steps": 1}, limit=5, now=10)
    offer(exchanges, "worker 2", {"steps": 2}, limit=60, now=11)
    assert exchanges.overdue(14.9, str) == []
    answers = exchanges.overdue(15.0, lambda task: f"{task} is in fit")
    assert [task for task, _ in answers] == ["worker 0", "worker 2"]
    assert answers[0][1]["absent"] == {"worker 1": "worker 1 is in fit"}
    assert answers[0][1]["differ"] == [["steps", [[1, ["worker 0"]], [2, ["worker 2"]]]]]
    assert offer(exchanges, "worker 1", {"steps": 1}, now=20) == [("worker 1", answers[0][1])]
    assert offer(exchanges, "worker 1", {}, number=2) == []


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ("worker 9", {"number": 1, "about": "", "document": {}}),
        ("worker 0", {"number": 1, "about": "", "document": []}),
        ("worker 0", {"number": "x", "about": "", "document": {}}),
        ("worker 0", {"number": 1, "document": {}}),
    ],
)
def test_what_is_no_document_is_refused(task, message):
    with pytest.raises((LookupError, ValueError)):
        Exchanges(TASKS).offer(task, message, 0.0)
