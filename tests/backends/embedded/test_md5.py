"""MD5 of several messages at once, with the C library and without it, and the groups in which bodies are hashed."""

from __future__ import annotations

import asyncio
import hashlib
import random
import shutil
import subprocess
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.embedded.core.files import hashing, md5
from backends.embedded.core.files.digests import Buffer, Digests
from backends.embedded.core.files.hashing import Hashing

SECONDS_MAX = 60.0  # reached only if a body is never hashed
SOURCE = Path(md5.__file__).with_name("md5.c")
WARNINGS = ("-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Werror")
RFC_1321 = {  # section A.5
    b"": "d41d8cd98f00b204e9800998ecf8427e",
    b"a": "0cc175b9c0f1b6a831c399e269772661",
    b"abc": "900150983cd24fb0d6963f7d28e17f72",
    b"message digest": "f96b697d7cb7938d525a2f31aaf161d0",
    b"abcdefghijklmnopqrstuvwxyz": "c3fcd3d76192e4007dfb496cca67e13b",
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789": "d174ab98d277d9f5a5611c2c9f419d9f",
    b"1234567890" * 8: "57edf4a22be3c955ac49da2e2107b67a",
}


@pytest.fixture(scope="module", params=["library", "hashlib"], autouse=True)
def library(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The library, built as setup.py builds it, or None for hashlib instead."""
    library = None
    if request.param == "library":
        compiler = shutil.which("cc")
        if compiler is None:
            pytest.skip("needs a C compiler")
        path = tmp_path_factory.mktemp("md5") / md5.LIBRARY
        flags = ["-std=gnu11", "-O2", "-fvisibility=hidden", *WARNINGS, "-fPIC", "-shared"]
        subprocess.run([compiler, *flags, SOURCE, "-o", path], check=True)
        library = md5.load(path)
        assert library is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(md5, "_library", library)
        yield library


def test_rfc_1321_messages_have_the_published_digests() -> None:
    running = [md5.start() for _ in RFC_1321]
    md5.update_together(list(zip(running, RFC_1321, strict=True)))
    assert [each.digest().hex() for each in running] == list(RFC_1321.values())


@given(st.data())
def test_digests_are_those_of_hashlib_for_any_lengths_and_pieces(data: st.DataObject) -> None:
    sizes = st.lists(st.one_of(st.sampled_from([0, 1, 55, 56, 63, 64, 65, 128]), st.integers(0, 700)), max_size=4)
    messages = [
        [random.Random(size).randbytes(size) for size in each]
        for each in data.draw(st.lists(sizes, min_size=1, max_size=2 * md5.LANES + 3))
    ]
    running = [md5.start() for _ in messages]
    for pieces in zip_longest(*messages):
        md5.update_together([pair for pair in zip(running, pieces, strict=True) if pair[1] is not None])
    assert [each.digest() for each in running] == [hashlib.md5(b"".join(each)).digest() for each in messages]


@pytest.mark.parametrize("count", range(1, 2 * md5.LANES + 2))
def test_lanes_with_different_lengths_have_correct_digests(count: int) -> None:
    messages = [random.Random(number).randbytes(1000 * (number % 5) + 17 * number) for number in range(count)]
    running = [md5.start() for _ in messages]
    md5.update_together([(each, bytearray(message)) for each, message in zip(running, messages, strict=True)])
    assert [each.digest() for each in running] == [hashlib.md5(message).digest() for message in messages]


def test_a_message_continues_after_its_digest_was_computed() -> None:
    running = md5.start()
    for length in range(0, 300, 20):
        assert running.digest() == hashlib.md5(b"x" * length).digest()
        running.update(b"x" * 20)


def test_read_only_and_partial_memory_is_hashed() -> None:
    data = bytes(range(256)) * 4
    for piece in (data, memoryview(data)[3:700], memoryview(bytearray(data))[3:700]):
        running = md5.start()
        running.update(piece)
        assert running.digest() == hashlib.md5(piece).digest()


def test_memory_is_released_after_the_call() -> None:
    buffer = bytearray(1000)
    running = md5.start()
    running.update(memoryview(buffer)[:900])
    buffer.append(0)  # A bytearray that is in use cannot be resized.


def test_missing_or_broken_library_loads_as_none(tmp_path: Path) -> None:
    (tmp_path / "broken.so").write_bytes(b"not a library")
    assert md5.load(tmp_path / "missing.so") is None
    assert md5.load(tmp_path / "broken.so") is None


class Threads(ThreadPoolExecutor):
    """An executor of one thread, which works while `open` is set. `groups`: the sizes of the groups that it got."""

    def __init__(self) -> None:
        super().__init__(1)
        self.open = threading.Event()
        self.groups: list[int] = []

    def submit(self, work: Any, /, *arguments: Any, **named: Any) -> Any:
        self.groups.append(len(arguments[0]))

        def later() -> Any:
            self.open.wait()
            return work(*arguments, **named)

        return super().submit(later)


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[Threads]:
    monkeypatch.setattr(hashing, "_THREADS_MAX", 1)
    threads = Threads()
    yield threads
    threads.open.set()


async def test_waiting_bodies_are_hashed_in_groups(threads: Threads) -> None:
    asyncio.get_running_loop().set_default_executor(threads)
    together, bodies = Hashing(), [random.Random(size).randbytes(100 * size) for size in range(2 * md5.LANES)]
    digests = [Digests(("sha256",), is_long=True) for _ in bodies]
    updates = [
        asyncio.create_task(together.update(each, [body[:100], body[100:]]))
        for each, body in zip(digests, bodies, strict=True)
    ]
    await asyncio.sleep(0)
    updates[5].cancel()  # Its client is gone. The rest of its group continues.
    threads.open.set()
    async with asyncio.timeout(SECONDS_MAX):
        results = await asyncio.gather(*updates, return_exceptions=True)
    assert [type(result) for result in results].count(asyncio.CancelledError) == 1
    assert threads.groups == [1, md5.LANES, md5.LANES - 1]
    for each, body in zip(digests, bodies, strict=True):
        assert each.size_bytes == len(body)
        assert each.md5() == hashlib.md5(body).digest()
        assert each.of_kind("sha256") == hashlib.sha256(body).digest()


async def test_failed_group_fails_its_bodies_but_no_later_one(
    threads: Threads, monkeypatch: pytest.MonkeyPatch
) -> None:
    asyncio.get_running_loop().set_default_executor(threads)
    threads.open.set()
    together = Hashing()

    def fail(updates: Sequence[tuple[Digests, Sequence[Buffer]]]) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(hashing, "update_together", fail)
        with pytest.raises(MemoryError):
            await together.update(Digests(is_long=True), [b"x"])
    after = Digests(is_long=True)
    async with asyncio.timeout(SECONDS_MAX):
        await together.update(after, [b"x"])
    assert after.md5() == hashlib.md5(b"x").digest()
