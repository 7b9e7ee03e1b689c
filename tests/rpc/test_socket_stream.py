"""The output path of one connection, and what it tells its owner."""

# ruff: noqa: ASYNC240 — small files of the test's own; nothing else waits for the loop

import asyncio
import os
import socket
import tempfile
import threading
from functools import partial
from pathlib import Path

import pytest

from libs.rpc.files import disk_readers
from libs.rpc.transport import socket_stream, socket_transport
from libs.rpc.transport.descriptors import MAX_DESCRIPTORS
from libs.rpc.transport.socket_transport import SocketTransport, parse_address
from libs.rpc.transport.transport import Stream
from tests.rpc.stream_owner import Owner, Pair
from tests.support.polling import until


@pytest.fixture
def contents(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(bytes(range(256)) * 12_288)  # 3 MiB
    return path


async def test_all_writes_of_a_turn_leave_in_one_system_call(pair: Pair) -> None:
    here, there = pair

    def answer() -> None:
        for _ in range(20):
            there.stream.write(b"an", memoryview(b"swer"))

    there.on_bytes = answer
    here.stream.write(b"go")
    await until(lambda: len(here.received) == 120)
    assert there.stream.sends == 1


async def test_of_much_that_is_written_in_one_turn_the_first_leaves_before_the_last_is_written(pair: Pair) -> None:
    here, there = pair
    sent: list[int] = []

    def answer() -> None:
        for number in range(100):
            there.stream.write(b"%02d" % number, memoryview(b"answer"))
            sent.append(there.stream.bytes_sent)

    there.on_bytes = answer
    here.stream.write(b"go")
    await until(lambda: len(here.received) == 800)
    assert (sent[0], sent[-1] > 0) == (0, True)
    assert there.stream.sends < 10
    assert here.received == b"".join(b"%02danswer" % number for number in range(100))


async def test_bytes_that_do_not_fit_into_the_socket_early_are_sent_when_they_do(pair: Pair) -> None:
    here, there = pair
    there.stream.pause_reading()
    pieces = [bytes([number % 256]) * 65_536 for number in range(200)]
    for piece in pieces:
        here.stream.write(piece)
    assert 0 < here.stream.bytes_sent < len(pieces) * 65_536
    there.stream.resume_reading()
    await until(lambda: len(there.received) == len(pieces) * 65_536)
    assert there.received == b"".join(pieces)


async def test_nothing_is_sent_early_that_comes_behind_a_file(pair: Pair, contents: Path) -> None:
    here, there = pair
    fd = os.open(contents, os.O_RDONLY)
    here.stream.write_file(fd, 0, 100, lambda _sent: os.close(fd))
    for _ in range(100):
        here.stream.write(b"x")
    assert here.stream.bytes_sent == 0
    await until(lambda: len(there.received) == 200)
    assert there.received == contents.read_bytes()[:100] + b"x" * 100


async def test_writes_outside_of_a_turn_leave_together_soon(pair: Pair) -> None:
    here, there = pair
    for number in range(40):
        here.stream.write(b"%02d" % number)
    assert here.stream.sends == 0
    await until(lambda: len(there.received) == 80)
    assert here.stream.sends == 1
    assert here.stream.bytes_sent == 80


async def test_buffers_and_file_ranges_keep_their_order(pair: Pair, contents: Path) -> None:
    here, there = pair
    fd = os.open(contents, os.O_RDONLY)
    sent: list[bool] = []
    expected = b""
    data = contents.read_bytes()
    for position, length in ((0, 10), (5, 300_000), (1000, 0), (1_000_000, 2_000_000)):
        header = b"<%d,%d>" % (position, length)
        here.stream.write(header)
        here.stream.write_file(fd, position, length, sent.append)
        expected += header + data[position : position + length]
    here.stream.write(b"end")
    expected += b"end"
    assert here.stream.pending_bytes == len(expected)
    assert here.stream.pending_file_bytes == 10 + 300_000 + 2_000_000
    await until(lambda: len(there.received) == len(expected))
    assert there.received == expected
    assert sent == [True] * 4
    assert here.stream.pending_bytes == here.stream.pending_file_bytes == 0
    os.close(fd)


async def test_a_file_range_that_is_not_cached_is_read_by_a_thread_first(
    pair: Pair, contents: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    warmed: list[tuple[int, int]] = []
    monkeypatch.setattr(socket_stream, "is_cached", lambda fd, position, length: False)
    monkeypatch.setattr(disk_readers, "warm", lambda fd, position, length: warmed.append((position, length)))
    here, there = pair
    fd = os.open(contents, os.O_RDONLY)
    here.stream.write_file(fd, 100, 3_000_000)
    here.stream.write(b"end")
    await until(lambda: len(there.received) == 3_000_003)
    assert there.received == contents.read_bytes()[100:3_000_100] + b"end"
    assert sum(length for _, length in warmed) >= 3_000_000
    assert here.stream.disk_wait_s > 0
    os.close(fd)


async def test_the_page_cache_is_looked_at_once_for_a_range_that_leaves_soon_and_again_for_one_that_waited(
    pair: Pair, contents: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[tuple[int, int]] = []

    def look(_fd: int, position: int, length: int) -> bool:
        looks.append((position, length))
        return True

    monkeypatch.setattr(socket_stream, "is_cached", look)
    here, there = pair
    fd = os.open(contents, os.O_RDONLY)
    here.stream.write_file(fd, 0, 1 << 20)
    await until(lambda: len(there.received) == 1 << 20)
    assert looks == [(0, 1 << 20)]
    assert here.stream.disk_wait_s == 0
    here.stream.write_file(fd, 0, 1 << 20, cached=1 << 20)
    await until(lambda: len(there.received) == 2 << 20)
    assert looks == [(0, 1 << 20)]

    there.stream.pause_reading()
    while not here.stream.pending_bytes % (1 << 20):  # a part of one range is sent
        here.stream.write_file(fd, 0, 1 << 20)
        here.stream.flush()
    here.stream.write_file(fd, 0, 1 << 20)
    before = len(looks)
    monkeypatch.setattr(socket_stream, "STILL_CACHED_S", 0.0)
    there.stream.resume_reading()
    await until(lambda: not here.stream.pending_bytes)
    assert any(position > 0 for position, _ in looks[before:]), "what was seen before the wait is not taken for granted"
    os.close(fd)


async def test_a_connection_that_ends_while_a_thread_reads_keeps_the_descriptor_until_it_is_done(
    pair: Pair, contents: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_fd, write_fd = os.pipe()
    monkeypatch.setattr(socket_stream, "is_cached", lambda fd, position, length: False)
    begun = threading.Event()

    def warm(fd: int, position: int, length: int) -> None:
        begun.set()
        os.read(read_fd, 1)

    monkeypatch.setattr(disk_readers, "warm", warm)
    here, _ = pair
    sent: list[bool] = []
    fd = os.open(contents, os.O_RDONLY)
    here.stream.write_file(fd, 0, 1000, sent.append)
    here.stream.flush()
    await until(begun.is_set)
    here.stream.abort(ConnectionResetError("now"))
    await until(lambda: bool(here.lost))
    assert sent == []
    os.write(write_fd, b"x")
    await until(lambda: sent == [False])
    for each in (fd, read_fd, write_fd):
        os.close(each)


async def test_a_disk_that_hangs_holds_up_what_is_sent_from_its_own_files_only(
    tmp_path: Path, short_dir: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Far more sends wait for the disk than it has threads. Each file stands for a disk, by its inode."""
    hanging, sound = tmp_path / "hanging", tmp_path / "sound"
    for path in (hanging, sound):
        path.write_bytes(path.name.encode())
    works_again = threading.Event()
    hanging_inode, on_hanging_disk = hanging.stat().st_ino, []

    def warm(fd: int, position: int, length: int) -> None:
        if os.fstat(fd).st_ino == hanging_inode:
            on_hanging_disk.append(threading.current_thread())
            works_again.wait(60)

    monkeypatch.setattr(socket_stream, "is_cached", lambda fd, position, length: False)
    monkeypatch.setattr(disk_readers, "warm", warm)
    monkeypatch.setattr(disk_readers, "disk_of", lambda fd: os.fstat(fd).st_ino)
    transport = SocketTransport()
    here: list[Owner] = []
    there: list[Owner] = []

    def owner(owners: list[Owner], stream: Stream) -> Owner:
        owners.append(Owner(stream))
        return owners[-1]

    listener = await transport.listen(f"unix:{short_dir}/disks", partial(owner, there))
    for _ in range(60):
        await transport.connect(listener.address, partial(owner, here), 5)
    await until(lambda: len(there) == 60)
    fds = {path: os.open(path, os.O_RDONLY) for path in (hanging, sound)}
    sent: list[bool] = []
    for stream in [each.stream for each in here[:50]]:
        stream.write_file(fds[hanging], 0, 7, sent.append)
    await until(lambda: bool(on_hanging_disk))
    for stream in [each.stream for each in here[50:]]:
        stream.write_file(fds[sound], 0, 5)
    await until(lambda: sum(len(each.received) for each in there) == 10 * 5)
    await until(lambda: len(on_hanging_disk) == disk_readers.THREADS_A_DISK)
    assert all(thread.daemon for thread in on_hanging_disk), "the process can end"

    # A connection that ends meanwhile lets go of its file, unless a thread reads it.
    for each in here[:50]:
        each.stream.abort(ConnectionResetError("now"))
    await until(lambda: len(sent) == 50 - disk_readers.THREADS_A_DISK)
    works_again.set()
    await until(lambda: sent == [False] * 50)
    assert len(on_hanging_disk) == disk_readers.THREADS_A_DISK
    listener.close()
    for each in here[50:]:
        each.stream.abort(ConnectionResetError("the test is over"))
    await until(lambda: all(each.lost for each in (*here, *there)))
    for fd in fds.values():
        os.close(fd)


async def test_a_file_that_is_shorter_than_promised_ends_the_connection(pair: Pair, contents: Path) -> None:
    here, there = pair
    sent: list[bool] = []
    fd = os.open(contents, os.O_RDONLY)
    here.stream.write_file(fd, 3 * 1024 * 1024 - 5, 10, sent.append)
    await until(lambda: bool(here.lost) and bool(there.lost))
    assert sent == [False]
    assert "shorter" in str(here.lost[0])
    os.close(fd)


async def test_a_slow_reader_gets_everything_and_the_writer_hears_when_there_is_room(pair: Pair) -> None:
    here, there = pair
    there.stream.pause_reading()
    data = os.urandom(1 << 20)
    for _ in range(16):
        here.stream.write(data)
    here.stream.flush()
    assert here.stream.pending_bytes > 1 << 20
    assert here.ready == 0
    there.stream.resume_reading()
    await until(lambda: len(there.received) == 16 << 20)
    assert there.received == data * 16
    assert here.ready == 1
    assert here.stream.pending_bytes == 0


async def test_the_writer_hears_of_room_even_if_the_kernel_took_everything_at_once(pair: Pair) -> None:
    here, _ = pair
    here.stream.write(bytes(100_000))
    here.stream.flush()
    await until(lambda: here.stream.pending_bytes == 0)
    assert here.ready == 1


async def test_close_sends_what_is_queued_first(pair: Pair) -> None:
    here, there = pair
    here.stream.write(bytes(3_000_000))
    here.stream.close()
    here.stream.write(b"dropped quietly")
    await until(lambda: bool(there.lost))
    assert len(there.received) == 3_000_000
    assert here.lost == [None]
    assert there.lost == [None]


async def test_close_does_not_wait_forever_for_a_peer_that_does_not_read(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket_stream, "CLOSE_TIMEOUT_S", 0.05)
    here, there = pair
    there.stream.pause_reading()
    here.stream.write(bytes(20_000_000))
    here.stream.close()
    await until(lambda: bool(here.lost))
    assert isinstance(here.lost[0], TimeoutError)


async def test_close_in_the_middle_of_a_turn_sends_the_answer(pair: Pair) -> None:
    here, there = pair

    def answer_and_close() -> None:
        there.stream.write(b"bye")
        there.stream.close()

    there.on_bytes = answer_and_close
    here.stream.write(b"go")
    await until(lambda: bool(here.lost))
    assert here.received == b"bye"


async def test_abort_tells_the_owner_once_and_later(pair: Pair) -> None:
    here, there = pair
    reason = ValueError("hostile")
    here.stream.abort(reason)
    here.stream.abort(ValueError("again"))
    assert here.lost == []
    await until(lambda: bool(here.lost) and bool(there.lost))
    assert here.lost == [reason]
    sent: list[bool] = []
    here.stream.write(b"dropped")
    here.stream.write_file(0, 0, 10, sent.append)
    await until(lambda: sent == [False])


async def test_an_owner_that_fails_loses_its_connection_only(pair: Pair, caplog: pytest.LogCaptureFixture) -> None:
    here, there = pair

    def fail() -> None:
        raise ZeroDivisionError

    there.on_bytes = fail
    here.stream.write(b"go")
    await until(lambda: bool(here.lost) and bool(there.lost))
    assert isinstance(there.lost[0], ZeroDivisionError)
    assert "receiver failed" in caplog.text


# Descriptors: Unix sockets only

unix_only = pytest.mark.parametrize("pair_address", ["unix"], indirect=True)


def temporary(text: bytes) -> int:
    with tempfile.TemporaryFile() as file:
        file.write(text)
        file.flush()
        return os.dup(file.fileno())


@unix_only
async def test_descriptors_arrive_no_later_than_the_bytes_they_were_attached_to(pair: Pair) -> None:
    here, there = pair
    seen: list[tuple[int, int]] = []
    there.on_bytes = lambda: seen.append((len(there.received), len(there.fds)))
    for text in (b"first", b"second"):
        fd = temporary(text)
        here.stream.write(b"plain")
        here.stream.attach_descriptors([fd])
        os.close(fd)  # it was duplicated
        here.stream.write(b"frame")
    await until(lambda: len(there.received) == 20)
    assert [os.pread(fd, 10, 0) for fd in there.fds] == [b"first", b"second"]
    assert all(not os.get_inheritable(fd) for fd in there.fds)
    for received, fds in seen:
        assert fds >= (1 if received >= 10 else 0) + (1 if received >= 20 else 0)


@unix_only
async def test_descriptors_keep_their_place_when_the_socket_is_full(pair: Pair) -> None:
    here, there = pair
    there.stream.pause_reading()
    for _ in range(5):
        fd = temporary(b"x")
        here.stream.write(bytes(400_000))
        here.stream.attach_descriptors([fd])
        here.stream.write(b"frame")
        os.close(fd)
    here.stream.flush()
    there.stream.resume_reading()
    await until(lambda: len(there.received) == 5 * 400_005)
    assert len(there.fds) == 5


@unix_only
async def test_descriptors_that_were_not_sent_are_closed(pair: Pair) -> None:
    here, _ = pair
    fd = temporary(b"x")
    here.stream.attach_descriptors([fd])
    os.close(fd)
    here.stream.abort(ConnectionResetError("now"))  # the leak check of the fixture looks


@unix_only
async def test_more_descriptors_than_there_is_room_for_end_the_connection_and_do_not_leak(pair: Pair) -> None:
    here, there = pair
    fd = temporary(b"x")
    socket.send_fds(here.stream._socket, [b"boo"], [fd] * (MAX_DESCRIPTORS + 5))
    os.close(fd)
    await until(lambda: bool(there.lost))
    assert "more than 16" in str(there.lost[0])
    with pytest.raises(ValueError, match="descriptors"):
        here.stream.attach_descriptors([0] * (MAX_DESCRIPTORS + 1))


@pytest.mark.parametrize("pair_address", ["tcp"], indirect=True)
async def test_descriptors_do_not_pass_over_tcp(pair: Pair) -> None:
    with pytest.raises(ValueError, match="Unix"):
        pair[0].stream.attach_descriptors([0])


# The transport


async def test_a_process_of_another_user_is_refused(short_dir: str, caplog: pytest.LogCaptureFixture) -> None:
    strict = SocketTransport(allowed_uids=frozenset({os.getuid() + 1}))
    lenient = SocketTransport()
    owners: list[Owner] = []

    def make(stream: Stream) -> Owner:
        owners.append(Owner(stream))
        return owners[-1]

    def refuse(stream: Stream) -> Owner:
        raise AssertionError("a stranger was let in")

    listener = await strict.listen(f"unix:{short_dir}/s", refuse)
    with pytest.raises(PermissionError):
        await strict.connect(listener.address, make, 5)
    await lenient.connect(listener.address, make, 5)
    await until(lambda: bool(owners) and bool(owners[0].lost))
    assert "connection refused" in caplog.text
    listener.close()


async def test_the_socket_of_a_killed_process_is_taken_over_but_not_one_in_use(short_dir: str) -> None:
    transport = SocketTransport()
    path = f"{short_dir}/s"
    with socket.socket(socket.AF_UNIX) as killed:
        killed.bind(path)
    listener = await transport.listen(f"unix:{path}", Owner)
    assert os.stat(path).st_mode & 0o777 == 0o600
    with pytest.raises(OSError, match="in use"):
        await transport.listen(f"unix:{path}", Owner)
    listener.close()
    assert not os.path.exists(path)
    Path(path).write_text("precious", encoding="utf-8")
    with pytest.raises(FileExistsError):
        await transport.listen(f"unix:{path}", Owner)


async def test_connecting_to_nobody_fails(short_dir: str) -> None:
    for address in (f"unix:{short_dir}/nobody", "tcp:127.0.0.1:1"):
        with pytest.raises(OSError):
            await SocketTransport().connect(address, Owner, 5)


async def test_accepting_goes_on_after_the_process_ran_out_of_descriptors(
    address: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    import resource

    monkeypatch.setattr(socket_transport, "OUT_OF_DESCRIPTORS_PAUSE_S", 0.05)
    owners: list[Owner] = []

    def make(stream: Stream) -> Owner:
        owners.append(Owner(stream))
        return owners[-1]

    listener = await SocketTransport().listen(address, make)
    family, target = parse_address(listener.address)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with socket.socket(family) as caller:
        try:
            lowest_free = os.dup(0)
            os.close(lowest_free)
            resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, limits[1]))
            caller.connect(target)
            await until(lambda: "cannot accept" in caplog.text)
            assert owners == []
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        await until(lambda: len(owners) == 1)
    await until(lambda: bool(owners[0].lost))
    listener.close()


async def test_a_listener_that_pauses_accepts_nobody_until_then(address: str) -> None:
    owners: list[Owner] = []
    times: list[float] = []
    loop = asyncio.get_running_loop()

    def make(stream: Stream) -> Owner:
        owners.append(Owner(stream))
        times.append(loop.time())
        if len(owners) == 2:
            listener.pause(5.0)
            listener.pause(0.1)  # the later call counts
        return owners[-1]

    listener = await SocketTransport().listen(address, make)
    family, target = parse_address(listener.address)
    callers = [socket.socket(family) for _ in range(4)]
    try:
        for caller in callers:
            caller.connect(target)
        await until(lambda: len(owners) == 4)
        assert times[1] - times[0] < 0.1 <= times[2] - times[1] < 2.0
        listener.pause(0.01)
    finally:
        for caller in callers:
            caller.close()
    await until(lambda: all(owner.lost for owner in owners))
    listener.close()
    listener.pause(0.01)  # it is closed, and that is all


def test_addresses_are_read() -> None:
    assert parse_address("unix:/run/a.sock") == (socket.AF_UNIX, "/run/a.sock")
    assert parse_address("tcp:localhost:9092") == (socket.AF_INET, ("localhost", 9092))
    assert parse_address("tcp:[::1]:9092") == (socket.AF_INET6, ("::1", 9092))
    for wrong in ("", "unix:", "tcp:9092", "tcp::9092", "tcp:host:port", "http:a:1"):
        with pytest.raises(ValueError, match="not an address"):
            parse_address(wrong)


async def test_many_streams_take_turns_while_one_sends_a_lot(pair: Pair, contents: Path) -> None:
    here, there = pair
    fd = os.open(contents, os.O_RDONLY)
    for _ in range(20):
        here.stream.write_file(fd, 0, 3 << 20)
    here.stream.flush()
    assert here.stream.pending_bytes >= (60 << 20) - socket_stream.FAIR_SHARE - (4 << 20)
    await until(lambda: len(there.received) == 60 << 20)
    os.close(fd)
