"""Payloads that are not bytes in memory: file ranges over the wire, and descriptors passed to the same host."""

# ruff: noqa: ASYNC230, ASYNC240 — small files of the test's own; nothing else waits for the loop

import errno
import os
import resource
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from libs.rpc.messages.envelope import Kind, pack_body, pack_frame
from libs.rpc.messages.errors import KAFKA_STORAGE_ERROR, Disconnected, RpcError
from libs.rpc.server.rpc_server import Call
from tests.rpc.conftest import Network
from tests.support.polling import until


@pytest.fixture
def segment(tmp_path: Path) -> Path:
    path = tmp_path / "segment"
    path.write_bytes(os.urandom(3 << 20))
    return path


async def test_an_answer_holds_memory_and_file_ranges_as_one_payload(network: Network, address: str, segment: Path) -> None:
    def accept(call: Call) -> None:
        fd = os.open(segment, os.O_RDONLY)
        call.reply([], [b"header"], [(fd, 0, 100), (fd, 1_000_000, 2_000_000)])
        os.close(fd)  # the server has its own

    _, at = await network.serve(address, {"read": accept})
    client = await network.client(at)
    for _ in range(2):
        response = await client.call("read", [], timeout_s=60)
        data = segment.read_bytes()
        assert response.payload == b"header" + data[:100] + data[1_000_000:3_000_000]


async def test_a_descriptor_arrives_with_its_own_answer(network: Network, short_dir: str, tmp_path: Path) -> None:
    def accept(call: Call) -> None:
        number = call.body[0]
        if number == 3:
            call.reply([number])
            return
        path = tmp_path / str(number)
        path.write_text(f"file {number}", encoding="utf-8")
        fd = os.open(path, os.O_RDONLY)
        call.reply([number], descriptors=[fd])
        os.close(fd)

    _, at = await network.serve(f"unix:{short_dir}/s", {"open": accept})
    client = await network.client(at)
    futures = [client.call("open", [number], [bytes(50_000)], timeout_s=60) for number in range(6)]
    for number, future in enumerate(futures):
        response = await future
        assert response.body == [number]
        if number == 3:
            assert response.descriptors == ()
        else:
            (fd,) = response.descriptors
            assert os.pread(fd, 100, 0) == f"file {number}".encode()
            assert not os.get_inheritable(fd)
            os.close(fd)


async def test_descriptors_of_an_answer_that_nobody_waits_for_are_closed(network: Network, short_dir: str, segment: Path) -> None:
    calls: list[Call] = []

    def echo(call: Call) -> None:
        call.reply([])

    _, at = await network.serve(f"unix:{short_dir}/s", {"open": calls.append, "echo": echo})
    client = await network.client(at)
    future = client.call("open", [], timeout_s=60)
    await until(lambda: len(calls) == 1)
    fd = os.open(segment, os.O_RDONLY)
    calls[0].reply([], descriptors=[fd])
    os.close(fd)
    future.cancel()
    await client.call("echo", [], timeout_s=60)  # the leak check of the fixture looks


@pytest.fixture
def open_files_limit() -> Iterator[int]:
    """The hard limit of open files. The soft limit is what it was, when the test is over."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield hard
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("free", [0, 1], ids=["no descriptor is free", "one of two descriptors is free"])
async def test_an_answer_whose_descriptors_find_no_room_comes_without_them_and_the_connection_lives(
    network: Network, short_dir: str, segment: Path, open_files_limit: int, free: int
) -> None:
    """The kernel drops what the process has no room for (MSG_CTRUNC). The answers around it are whole, each with its own."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]

    def accept(call: Call) -> None:
        number = call.body[0]
        fds = [os.open(segment, os.O_RDONLY), os.open(segment, os.O_RDONLY)]
        os.lseek(fds[0], 1000 * number, os.SEEK_SET)
        call.reply([number], [bytes(100_000)], descriptors=fds)  # it has duplicates of its own until they are sent
        for fd in fds:
            os.close(fd)
        if number == 1:
            # All numbers below were taken, and are so when the answer arrives.
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(fds) + free, open_files_limit))

    _, at = await network.serve(f"unix:{short_dir}/s", {"open": accept})
    client = await network.client(at)
    connection = client.connection
    for number in range(4):
        response = await client.call("open", [number], timeout_s=60)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, open_files_limit))
        assert (response.body, len(response.payload)) == ([number], 100_000)
        if number == 1:
            assert response.descriptors == ()
        else:
            assert [os.lseek(fd, 0, os.SEEK_CUR) for fd in response.descriptors] == [1000 * number, 0]
        for fd in response.descriptors:
            os.close(fd)
    assert client.connection is connection


@pytest.mark.parametrize(
    "reply",
    [
        lambda call, fd: call.reply([], files=[(fd, 0, 10), (fd, 20, 10)]),
        lambda call, fd: call.reply([], files=[(fd, 0, 10)], descriptors=[fd]),
        lambda call, fd: call.reply_in_any_order([], [(fd, 0, 10), (fd, 20, 10)]),
    ],
    ids=["files", "a file and a descriptor", "files in any order"],
)
async def test_a_late_answer_without_a_free_descriptor_fails_its_call_and_raises_nothing(
    network: Network, short_dir: str, segment: Path, monkeypatch: pytest.MonkeyPatch, reply: Callable[[Call, int], None]
) -> None:
    calls: list[Call] = []
    _, at = await network.serve(f"unix:{short_dir}/s", {"read": calls.append})
    client = await network.client(at)
    connection = client.connection
    free, dup = [1, 0], os.dup

    def dup_while_free(fd: int) -> int:
        if not free.pop(0):
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return dup(fd)

    late = client.call("read", [], timeout_s=60)
    await until(lambda: calls)
    with open(segment, encoding="utf-8") as file:
        with monkeypatch.context() as patched:
            patched.setattr(os, "dup", dup_while_free)
            reply(calls[0], file.fileno())
        with pytest.raises(RpcError) as failed:
            await late
        assert failed.value.code == KAFKA_STORAGE_ERROR
        later = client.call("read", [], timeout_s=60)
        await until(lambda: len(calls) == 2)
        calls[1].reply([], files=[(file.fileno(), 0, 10)])
    assert len((await later).payload) == 10
    assert client.connection is connection


async def test_a_frame_that_claims_other_descriptors_than_came_with_it_ends_the_connection(
    network: Network, short_dir: str, segment: Path
) -> None:
    def accept(call: Call) -> None:
        with open(segment, encoding="utf-8") as file:
            stream = call._answers._stream  # type: ignore[union-attr]
            stream.attach_descriptors([file.fileno()])
            stream.write(pack_frame(Kind.RESPONSE, call.request_id, "", 0, None, pack_body([]), 0, 2))

    _, at = await network.serve(f"unix:{short_dir}/s", {"open": accept})
    client = await network.client(at)
    with pytest.raises(Disconnected):
        await client.call("open", [], timeout_s=60)


async def test_descriptors_that_a_caller_sends_unasked_are_closed(network: Network, short_dir: str, segment: Path) -> None:
    def echo(call: Call) -> None:
        call.reply([])

    _, at = await network.serve(f"unix:{short_dir}/s", {"echo": echo})
    client = await network.client(at)
    with open(segment, encoding="utf-8") as file:
        client.connection.stream.attach_descriptors([file.fileno()])  # type: ignore[union-attr]
    await client.call("echo", [], timeout_s=60)


async def test_a_descriptor_cannot_be_passed_over_tcp_and_the_caller_hears_of_it(network: Network, segment: Path) -> None:
    def accept(call: Call) -> None:
        with open(segment, encoding="utf-8") as file:
            call.reply([], descriptors=[file.fileno()])

    _, at = await network.serve("tcp:127.0.0.1:0", {"open": accept})
    client = await network.client(at)
    with pytest.raises(Exception, match="failed"):
        await client.call("open", [], timeout_s=60)
