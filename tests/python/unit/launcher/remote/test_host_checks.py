"""What is made of the hosts' answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tfmuster import __version__
from tfmuster.launcher.remote.host_checks import clock_warnings, hosts_error, peer_names
from tfmuster.system.program_files import package_digest
from tfmuster.system.versions import installed_versions
from tfmuster.words import speaking


@pytest.fixture(autouse=True)
def _on_the_command_line() -> Iterator[None]:
    """The texts below are those of the command line."""
    with speaking("shell"):
        yield


def hello(**more: Any) -> dict[str, Any]:
    versions = {"tensorflow": "2.21.0", "keras": "3.15.1", "python": "3.11"}
    names = {"a": ["a"], "b": ["b"], "c": ["c"]}
    return {
        "tfmuster": __version__,
        "package": package_digest(),
        "versions": versions,
        "ahead": 0.1,
        "names": names,
        "problem": None,
        **more,
    }


NAMES = {"a": ["a"], "b": ["b"], "c": ["c", "10.0.0.3"]}


class TestAnswers:
    def test_all_is_well(self) -> None:
        hellos = {"a": hello(), "b": hello(), "c": hello()}
        assert hosts_error(hellos, NAMES) is None
        assert clock_warnings(hellos) == []

    def test_versions_are_compared_with_what_most_have(self) -> None:
        old = {"tensorflow": "2.19.0", "keras": "none", "python": "3.11"}
        error = hosts_error({"a": hello(versions=old), "b": hello(tfmuster="0.0.9"), "c": hello()}, NAMES)
        assert str(error) == (
            "2 of the 3 hosts can't take part.\n"
            "  found: a: TensorFlow 2.19.0, the others TensorFlow 2.21.0\n"
            "         a: no Keras, the others Keras 3.15.1\n"
            f"         b: tfmuster 0.0.9, here {__version__}\n"
            "  to do: a: install the same TensorFlow on every host\n"
            "         a: install the same Keras on every host\n"
            f"         b: install tfmuster {__version__} there"
        )
        assert error is not None
        assert [finding["code"] for finding in error.fields["findings"]] == [
            "tensorflow-version",
            "keras-version",
            "tfmuster-version",
        ]

    def test_files_are_compared_with_what_most_have(self) -> None:
        files = {"train.py": "1", "layers.py": "2"}
        stale = hello(files={**files, "train.py": "9", "layers.py": "8", "only_here.py": "3"})
        error = hosts_error({"a": hello(files=files), "b": stale, "c": hello(files=files)}, NAMES)
        assert str(error) == (
            "1 of the 3 hosts can't take part.\n"
            "  found: b: train.py has other code than on a\n"
            "         b: layers.py has other code than on a\n"
            "  to do: b: copy it there, or send that of this machine to all with --copy\n"
            "         b: copy it there, or send that of this machine to all with --file layers.py"
        )

    def test_of_two_the_second_is_named(self) -> None:
        hellos = {"a": hello(files={"train.py": "1"}), "b": hello(files={"train.py": "2"})}
        assert "b: train.py has other code than on a" in str(hosts_error(hellos, NAMES))

    def test_two_checkouts_have_one_version(self) -> None:
        error = hosts_error({"a": hello(), "b": hello(package="0123")}, NAMES)
        assert str(error) == (
            "1 of the 2 hosts can't take part.\n"
            f"  found: b: its files of tfmuster {__version__} are not those here\n"
            "  to do: b: install the same tfmuster there as here"
        )

    def test_the_best_name_that_all_know(self) -> None:
        other = hello(names={"a": ["a"], "b": ["b"], "c": ["10.0.0.3"]})
        both = hello(names={"a": ["a"], "b": ["b"], "c": ["c", "10.0.0.3"]})
        assert peer_names({"a": both, "b": other, "c": both}, NAMES) == {"a": "a", "b": "b", "c": "10.0.0.3"}

    def test_a_name_that_one_does_not_know(self) -> None:
        blind = hello(names={"a": ["a"], "b": ["b"], "c": []})
        error = hosts_error({"a": blind, "b": hello(), "c": hello()}, NAMES)
        assert str(error) == (
            "1 of the 3 hosts can't take part.\n"
            "  found: c: c and 10.0.0.3 can't be looked up on a\n"
            "  to do: c: say how the others reach it: --address c=ADDRESS"
        )

    def test_versions_of_r_where_one_is_used(self) -> None:
        def with_r(version: str | None) -> dict[str, Any]:
            return hello(versions={**hello()["versions"], **({"r": version} if version else {})})

        error = hosts_error({"a": with_r("4.2"), "b": with_r("4.2"), "c": with_r("3.1")}, NAMES)
        assert error is not None
        assert error.found == "c: R 3.1, the others R 4.2"
        # Where there is none, that has been said as a problem of the command.
        assert hosts_error({"a": with_r("4.2"), "b": with_r("4.2"), "c": with_r(None)}, NAMES) is None

    def test_of_two_hosts_the_one_that_differs_from_this_machine_is_named(self) -> None:
        own = installed_versions()["python"]
        same, other = (
            hello(versions={"tensorflow": "2.21.0", "keras": "3.15.1", "python": version})
            for version in (own, "3.1")
        )
        for hellos in ({"a": same, "b": other}, {"b": other, "a": same}):
            error = hosts_error(hellos, NAMES)
            assert error is not None
            assert f"b: Python 3.1, the others Python {own}" in str(error)

    def test_a_host_that_does_not_carry_its_tasks(self) -> None:
        small = hello(capacity={"cores": 2, "free": 700, "least": 300})
        large = hello(capacity={"cores": 16, "free": 64_000, "least": 300})
        hellos = {"a": small, "b": large, "c": hello()}
        assert hosts_error(hellos, NAMES, {"a": 2, "b": 64}) is None
        assert hosts_error(hellos, NAMES) is None
        error = hosts_error(hellos, NAMES, {"a": 3, "b": 65})
        assert str(error) == (
            "2 of the 3 hosts can't take part.\n"
            "  found: a: processes: 3, of 300 MB or more each; free memory: 700 MB\n"
            "         b: processes: 65, cores: 16, of which each carries 4\n"
            "  to do: a: start at most 2 processes there, or set --oversubscribe\n"
            "         b: start at most 64 processes there, or set --oversubscribe"
        )
        assert error is not None
        assert {finding["code"] for finding in error.fields["findings"]} == {"oversubscribed"}

    def test_clocks(self) -> None:
        assert clock_warnings({"a": hello(ahead=7.0), "b": hello(ahead=-7300.0), "c": hello(ahead=4.0)}) == [
            "the clock of a is 7 s ahead; the times in its log are by that clock.",
            "the clock of b is 2.0 h behind; the times in its log are by that clock.",
        ]
