"""What stands in the arguments of a program for its place in the job."""

from tfmuster.cluster.tf_config import parse_tf_config
from tfmuster.launcher.command import command_of


def test_each_task_gets_its_own_place_and_the_addresses_of_all() -> None:
    task = parse_tf_config(
        '{"cluster": {"worker": ["a:1", "b:2"], "ps": ["c:3"]}, "task": {"type": "worker", "index": 1}}'
    )
    given = ("{index}", "--at={type}-{index}", "{worker_hosts}", "{ps_hosts}", "{chief_hosts}", "{other}")
    expected = ("{index}", "--at=worker-1", "a:1,b:2", "c:3", "{chief_hosts}", "{other}")
    assert command_of(given, task) == expected
