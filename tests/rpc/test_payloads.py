"""Payloads that are not bytes in memory: file ranges over the wire, and descriptors passed to the same host."""

# ruff: noqa: ASYNC230, ASYNC240 — small files of the test's own; nothing else waits for the loop

import os
from pathlib import Path

import pytest

from libs.rpc.server import Call
from tests.rpc.conftest import Network, until


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
        path.write_text(f"file {number}")
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


async def test_descriptors_that_a_caller_sends_unasked_are_closed(network: Network, short_dir: str, segment: Path) -> None:
    def echo(call: Call) -> None:
        call.reply([])

    _, at = await network.serve(f"unix:{short_dir}/s", {"echo": echo})
    client = await network.client(at)
    with open(segment) as file:
        client._link.stream.attach_descriptors([file.fileno()])  # type: ignore[union-attr]
    await client.call("echo", [], timeout_s=60)


async def test_a_descriptor_cannot_be_passed_over_tcp_and_the_caller_hears_of_it(network: Network, segment: Path) -> None:
    def accept(call: Call) -> None:
        with open(segment) as file:
            call.reply([], descriptors=[file.fileno()])

    _, at = await network.serve("tcp:127.0.0.1:0", {"open": accept})
    client = await network.client(at)
    with pytest.raises(Exception, match="failed"):
        await client.call("open", [], timeout_s=60)
