"""Sums over the workers: the C library and numpy speak one protocol, and fail with a name.

In one process the worker with the C library is rank `HERE`; the others are threads with numpy.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from support.clock import in_time
from support.jobs import run_job, succeeded
from tfmuster.collectives import group
from tfmuster.collectives.group import Group, open_group
from tfmuster.collectives.transport import SumError
from tfmuster.system.compiled import NotCompiled

needs_compiler = pytest.mark.skipif(
    sys.platform != "linux" or not any(map(shutil.which, ("cc", "gcc", "clang"))), reason="no C compiler"
)
#: Around the sizes at which vectors are cut differently, and an odd number of many pieces.
SIZES = (0, 1, 7, 8191, 8192, 8193, 100_003, 700_001)
HEADER = struct.Struct("<IHHQQQQQQII")
#: Bytes of it that must be equal on all workers. The others tell whose memory can be read.
COMPARED = 32
LIMIT = 20


def names(workers: int) -> list[str]:
    return [f"worker {rank}" for rank in range(workers)]


@contextlib.contextmanager
def connected(workers: int) -> Iterator[list[list[socket.socket | None]]]:
    """A TCP connection for each pair of workers, and for each worker the list of its own ends."""
    ends: list[list[socket.socket | None]] = [[None] * workers for _ in range(workers)]
    with contextlib.ExitStack() as stack:
        for rank in range(workers):
            for other in range(rank):
                with socket.create_server(("127.0.0.1", 0)) as listener:
                    called = socket.create_connection(listener.getsockname())
                    accepted, _ = listener.accept()
                ends[rank][other] = stack.enter_context(called)
                ends[other][rank] = stack.enter_context(accepted)
        yield ends


def at_once(works: list[Callable[[], Any]]) -> list[Any]:
    """Run functions at the same time. Return their results, or the errors that they raised."""
    results: list[Any] = [None] * len(works)

    def run(place: int) -> None:
        try:
            results[place] = works[place]()
        except SumError as error:
            results[place] = error

    threads = [threading.Thread(target=run, args=(place,), daemon=True) for place in range(len(works))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT)
        assert not thread.is_alive(), "a worker waits without end"
    return results


def exchanges(ends: list[list[socket.socket | None]], here: int | None) -> list[Any]:
    """The workers: the one of rank `here` with the C library, or none with it."""
    workers = len(ends)
    made: list[Any] = []
    for rank in range(workers):
        group = Group(rank, names(workers), ends[rank])
        if rank != here:
            group._use_numpy("this test compares both")
        made.append(group)
    if here is not None:
        assert made[here].why_numpy == ""
    return made


def arrays_of(rank: int, size: int, dtype: str) -> list[Any]:
    """Three arrays, one of them empty or scalar-like, with values that differ between workers."""
    generator = np.random.default_rng(1000 * rank + size)
    if dtype.startswith("int"):
        values = generator.integers(-(2**30), 2**30, size).astype(dtype)
    else:
        values = generator.normal(size=size).astype(dtype)
    cut = size // 3
    return [values[:cut].copy(), values[:0].copy(), values[cut:].reshape(-1, 1).copy()]


HERE = [
    pytest.param(None, id="numpy"),
    pytest.param(0, marks=needs_compiler, id="c-first"),
    pytest.param(-1, marks=needs_compiler, id="c-last"),
]


@pytest.mark.parametrize("workers", [2, 3, 5])
@pytest.mark.parametrize("here", HERE)
def test_sums_are_those_of_adding_in_the_order_of_the_workers(workers: int, here: int | None) -> None:
    here = None if here is None else here % workers
    with connected(workers) as ends:
        groups = exchanges(ends, here)
        for dtype in ("float32", "float64", "int32", "int64"):
            for size in SIZES:
                parts = [arrays_of(rank, size, dtype) for rank in range(workers)]
                expected = [sum(each[1:], start=each[0]) for each in zip(*parts, strict=True)]
                found = at_once(
                    [lambda g=g, p=p: g.sum_arrays(p, key=3) for g, p in zip(groups, parts, strict=True)]
                )
                for sums in found:
                    assert not isinstance(sums, SumError), sums
                    for total, wanted in zip(sums, expected, strict=True):
                        assert total.dtype == wanted.dtype
                        np.testing.assert_array_equal(total, wanted)
        sent = [group.times().sent for group in groups]
        # The last worker has a shorter slice, because slices begin at whole cache lines.
        assert max(sent) - min(sent) < 0.003 * max(sent)
        for group in groups:
            times = group.times()
            assert times.operations == 4 * len(SIZES)
            assert 0 < times.waited <= times.seconds
            assert times.late[group.rank] == 0


@pytest.mark.parametrize("wire", ["bfloat16", "float16"])
@pytest.mark.parametrize("workers", [2, 3])
@pytest.mark.parametrize("here", HERE)
def test_16_bits_are_added_as_32(workers: int, wire: str, here: int | None) -> None:
    narrow = np.dtype(ml_dtypes.bfloat16 if wire == "bfloat16" else "float16")
    here = None if here is None else here % workers
    with connected(workers) as ends:
        groups = exchanges(ends, here)
        for size in SIZES:
            parts = [arrays_of(rank, size, "float32") for rank in range(workers)]
            rounded = [[array.astype(narrow).astype("float32") for array in each] for each in parts]
            expected = [sum(each[1:], start=each[0]) for each in zip(*rounded, strict=True)]
            if workers > 2 and 2 * size * (workers - 1) > 192 * 1024:  # the sums travel in 16 bits, too
                expected = [array.astype(narrow).astype("float32") for array in expected]
            found = at_once(
                [lambda g=g, p=p: g.sum_arrays(p, wire=wire) for g, p in zip(groups, parts, strict=True)]
            )
            for sums in found:
                assert not isinstance(sums, SumError), sums
                for total, wanted in zip(sums, expected, strict=True):
                    np.testing.assert_array_equal(total, wanted)


@needs_compiler
@pytest.mark.parametrize("wire", ["bfloat16", "float16"])
def test_special_values_are_rounded_as_numpy_does(wire: str) -> None:
    narrow = np.dtype(ml_dtypes.bfloat16 if wire == "bfloat16" else "float16")
    bits = np.random.default_rng(0).integers(0, 2**32, 500_000, dtype=np.uint32)
    special = [0.0, -0.0, np.inf, -np.inf, 65504, 65519, 65520, -65520, 2**-14, 2**-24, 2**-25, 1e-45, 3e38]
    values = np.concatenate([bits.view("float32"), np.array(special, "float32")])
    values = values[~np.isnan(values)]
    with np.errstate(over="ignore"), connected(2) as ends:
        groups = exchanges(ends, 0)
        zeros = np.zeros_like(values)
        parts = ([values], [zeros])
        found = at_once(
            [lambda g=g, p=p: g.sum_arrays(p, wire=wire) for g, p in zip(groups, parts, strict=True)]
        )
        for sums in found:
            np.testing.assert_array_equal(sums[0], values.astype(narrow).astype("float32"))
        nan = np.full(3, np.nan, "float32")
        found = at_once([lambda g=g: g.sum_arrays([nan], wire=wire) for g in groups])
        assert all(np.isnan(sums[0]).all() for sums in found)


@needs_compiler
def test_many_small_arrays_are_one_vector() -> None:
    sizes = [*range(200), 40_000, *range(200, 0, -1)]
    with connected(2) as ends:
        groups = exchanges(ends, 0)
        parts = [[np.full(size, rank + 1.0, "float32") for size in sizes] for rank in range(2)]
        for sums in at_once([lambda g=g, p=p: g.sum_arrays(p) for g, p in zip(groups, parts, strict=True)]):
            for total in sums:
                assert (total == 3).all()


def wanted(here: int | None, text: str, results: list[Any]) -> None:
    """The worker of interest has failed, and says this."""
    assert isinstance(results[here or 0], SumError), results
    assert text in str(results[here or 0]), results


ONE = [pytest.param(None, id="numpy"), pytest.param(0, marks=needs_compiler, id="c")]


@pytest.mark.parametrize("here", ONE)
def test_another_operation_is_an_error_and_not_a_wrong_sum(here: int | None) -> None:
    values = [np.zeros(5, "float32")]
    for other, text in (
        ({"key": 2}, "worker 1 is at another operation: number 0 of its program, here number 0"),
        ({"values": [np.zeros(6, "float32")]}, "worker 1 is at another operation"),
        ({"values": [np.zeros(5, "float64")]}, "worker 1 has 5 values of type 2, sent as type 0, where this"),
        ({"wire": "bfloat16"}, "worker 1 has 5 values of type 1, sent as type 14, where this"),
    ):
        with connected(2) as ends:
            first, second = exchanges(ends, here)
            theirs = {"key": 1, **{k: v for k, v in other.items() if k != "values"}}
            results = at_once(
                [
                    lambda first=first: first.sum_arrays(values, key=1),
                    lambda second=second, o=other, t=theirs: second.sum_arrays(o.get("values", values), **t),
                ]
            )
            wanted(here, text, results)
            with pytest.raises(SumError, match="worker 1"):  # the streams are no longer in step
                first.sum_arrays(values, key=1)


@pytest.mark.parametrize("here", ONE)
@pytest.mark.parametrize("size", [5, 500_000])
def test_a_worker_that_is_gone_is_named(here: int | None, size: int) -> None:
    values = [np.zeros(size, "float32")]
    with connected(3) as ends:
        groups = exchanges(ends, here)
        for end in ends[1]:
            if end is not None:
                end.close()
        with pytest.raises(SumError, match=r"worker 1 (has closed its connection|broke)|to worker 1 broke"):
            groups[here or 0].sum_arrays(values)


@pytest.mark.parametrize("here", ONE)
def test_a_wait_ends_when_the_job_has_failed(here: int | None) -> None:
    with connected(2) as ends:
        group = exchanges(ends, here)[here or 0]
        threading.Timer(0.3, group.abort, ["worker 1 (host b, pid 12) disappeared"]).start()
        begin = time.monotonic()
        with pytest.raises(SumError, match="disappeared"):
            group.sum_arrays([np.zeros(100_000, "float32")])
        assert in_time(begin, 2)


@pytest.mark.parametrize("here", ONE)
def test_random_bytes_never_become_a_sum(here: int | None) -> None:
    generator = random.Random(5)
    mixed = (4 * 0x100000001B3) % 2**64  # of the key 0, and one array of 4 values
    greetings = [HEADER.pack(0x31584D54, 1, 0, 0, turn, 0, 0, 0, 0, 0, 0) for turn in range(2)]
    good = HEADER.pack(0x31584D54, 1, 0, 0, mixed, 4, 0, 0, 0, 0, 0) + bytes(16)
    for attempt in range(90):
        with connected(2) as ends:
            group = exchanges(ends, here)[0]
            # In place of the first or second greeting, or of the values.
            before = greetings[: attempt % 3]
            if attempt % 9 < 3:
                noise = generator.randbytes(generator.randrange(64, 400))
            else:
                changed = bytearray([*greetings, good][attempt % 3])
                changed[generator.randrange(COMPARED)] ^= generator.randrange(1, 256)
                noise = bytes(changed)
            end = ends[1][0]
            assert end is not None
            end.sendall(b"".join([*before, noise]))
            end.shutdown(socket.SHUT_WR)
            with pytest.raises(SumError, match="worker 1"):
                group.sum_arrays([np.zeros(4, "float32")])
    with connected(2) as ends:  # what was changed is accepted as it was
        end = ends[1][0]
        assert end is not None
        end.sendall(b"".join([*greetings, good]))
        (total,) = exchanges(ends, here)[0].sum_arrays([np.ones(4, "float32")])
        assert (total == 1).all()


def test_a_compiler_that_fails_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "cc"
    broken.write_text("#!/bin/sh\necho 'cc1: out of luck' >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(NotCompiled, match="cc fails: cc1: out of luck"):
        group.library_path.__wrapped__()
    broken.unlink()
    with pytest.raises(NotCompiled, match="no C compiler"):
        group.library_path.__wrapped__()
    assert not list((tmp_path / "cache" / "tfmuster").iterdir())


@needs_compiler
def test_a_library_that_others_can_write_to_is_not_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    path = group.library_path.__wrapped__()
    assert path.parent == tmp_path / "tfmuster"
    assert path.parent.stat().st_mode & 0o777 == 0o700
    path.write_bytes(b"not a library")
    path.chmod(0o777)
    assert group.library_path.__wrapped__() == path
    assert path.read_bytes()[:4] == b"\x7fELF"
    (tmp_path / "tfmuster").chmod(0o777)
    assert group.library_path.__wrapped__().parent == tmp_path / "temporary" / f"tfmuster-{os.getuid()}"


@needs_compiler
def test_workers_that_compile_at_the_same_time_get_the_same_file(tmp_path: Path) -> None:
    code = "from tfmuster.collectives import group; group.library(); print(group.library_path())"
    env = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    started = [
        subprocess.Popen([sys.executable, "-c", code], env=env, stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    paths = {process.communicate(timeout=60)[0] for process in started}
    assert len(paths) == 1
    assert [path.suffix for path in (tmp_path / "tfmuster").iterdir()] == [".so"]


def test_a_process_has_one_group() -> None:
    with connected(2) as ends:
        group = open_group(0, names(2), ends[0])
        assert group.open_files() == [ends[0][1]]


@needs_compiler
@pytest.mark.parametrize("workers", [2, 3])
def test_weights_are_equal_with_and_without_a_compiler(workers: int, tmp_path: Path) -> None:
    """All have the C library, or only the first one, or TensorFlow sums, which has other bits with three."""
    found = {}
    for kind in ("c", "mixed", "tensorflow")[: 5 - workers]:
        env = {"TFMUSTER_COMMUNICATION": "tensorflow"} if kind == "tensorflow" else {}
        done = succeeded(run_job("summing.py", workers, kind, env={"XDG_CACHE_HOME": str(tmp_path), **env}))
        lines = [process.stdout.splitlines()[-1].split() for process in done]
        assert len({line[0] for line in lines}) == 1, lines
        found[kind] = lines[0][0]
        ways = [line[1] for line in lines]
        mixed = ["c", *["numpy"] * (workers - 1)]
        assert ways == {"c": ["c"] * workers, "mixed": mixed, "tensorflow": ["none"] * workers}[kind]
    assert found["c"] == found["mixed"]
    if workers == 2:
        assert found["c"] == found["tensorflow"]
