"""A process that starts without the metadata store asks its peers, and takes the newest image of its own cluster."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

import pytest

from libs.cluster import keys
from libs.cluster.codec import encode
from libs.cluster.image import ClusterImage
from libs.cluster.image_follower import ImageFollower
from libs.cluster.memory.memory_store import MemoryStore
from libs.cluster.records import GATEWAY, STORAGE, Member, NodeRecord
from libs.cluster.store import Delete, KeyValue, Operation, Outcome, Put, RangeResult
from libs.commitlog.files.filesystem import OsFileSystem
from libs.rpc.contracts.peers import IMAGE, IMAGE_AT, ImageAt
from libs.rpc.messages.envelope import Hello
from libs.rpc.server.call import Call
from libs.rpc.server.rpc_server import Accept, RpcServer
from libs.rpc.transport.socket_transport import SocketTransport
from libs.runtime import peers as peers_module
from libs.runtime.address_book import Address, AddressBook, Book
from libs.runtime.peers import ImageLending, Peers

HOST = "this-host"
FS = OsFileSystem()
TRANSPORT = SocketTransport()


def image(revision: int, cluster_id: str = "c", nodes: int = 1) -> ClusterImage:
    """An image. Its number of nodes distinguishes it from others."""
    items = [KeyValue(keys.CLUSTER_ID, encode(cluster_id), 1, 1, 0)]
    items += [KeyValue(keys.node(each), encode(NodeRecord(each)), 1, 1, 0) for each in range(nodes)]
    return ClusterImage.from_range(RangeResult(tuple(items), revision))


class Town:
    """Peers that serve images, and a process that asks them."""

    def __init__(self, sockets: Path, data: Path) -> None:
        self.sockets, self.data = sockets, data
        self.book = AddressBook(FS, str(data))
        self._servers: list[RpcServer] = []

    async def lender(self, lent: ClusterImage, *, hello_cluster: str | None = None) -> str:
        return await self.serve(ImageLending(lambda: lent).methods, lent.cluster_id if hello_cluster is None else hello_cluster)

    async def serve(self, methods: Mapping[str, Accept], cluster_id: str = "c") -> str:
        number = len(self._servers) + 1
        server = RpcServer(Hello(STORAGE, number, 1, "test", 1, cluster_id), methods, transport=TRANSPORT)
        self._servers.append(server)
        return await server.listen(f"unix:{self.sockets}/{number}")

    def knows(self, *addresses: str, cluster_id: str = "c") -> None:
        self.book.write(Book(cluster_id, tuple(Address(STORAGE, at, HOST, each) for at, each in enumerate(addresses))))

    def asker(self, *seeds: str) -> Peers:
        about = {"role": GATEWAY, "node_id": 1, "incarnation": 5, "version": "test", "host_id": HOST}
        return Peers(AddressBook(FS, str(self.data)), seeds, transport=TRANSPORT, **about)  # type: ignore[arg-type]

    async def close(self) -> None:
        for server in self._servers:
            await server.close(0.0)


@pytest.fixture(autouse=True)
def peers_may_be_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers_module, "PEER_TIMEOUT_S", 60.0)


@pytest.fixture
async def town(short_dir: Path, tmp_path: Path) -> AsyncIterator[Town]:
    town = Town(short_dir, tmp_path)
    yield town
    await town.close()


async def test_the_newest_image_of_those_that_answer_is_taken(town: Town) -> None:
    stale, newest, older = await town.lender(image(7)), await town.lender(image(30, nodes=4)), await town.lender(image(29))
    starting = await town.lender(ClusterImage())
    town.knows(stale, newest, f"unix:{town.sockets}/nobody", older, starting)
    assert await town.asker().newest() == image(30, nodes=4)


async def test_a_peer_that_says_nothing_holds_nobody_up_for_long(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers_module, "PEER_TIMEOUT_S", 2.0)
    received = asyncio.Event()
    silent = await town.serve({IMAGE_AT: lambda call: received.set()})
    town.knows(silent, await town.lender(image(3)))
    assert await town.asker().newest() == image(3)
    assert received.is_set()


@pytest.mark.parametrize("hello_cluster", ["other", ""])
async def test_a_peer_of_another_cluster_is_refused_however_new_its_image_is(town: Town, hello_cluster: str) -> None:
    foreign = await town.lender(image(999, "other"), hello_cluster=hello_cluster)
    town.knows(foreign)
    assert await town.asker().newest() is None
    town.knows(foreign, await town.lender(image(3)))
    assert await town.asker().newest() == image(3)


async def test_an_image_that_differs_from_its_announcement_is_refused(town: Town) -> None:
    def telling(image_at: ImageAt, lent: ImageAt, payload: bytes) -> Mapping[str, Accept]:
        return {IMAGE_AT: lambda call: call.reply(image_at), IMAGE: lambda call: call.reply(lent, (payload,))}

    line = b'1\t1\t"/penstock/cluster_id"\t"%s"\n'
    older = await town.serve(telling(ImageAt(90, "c"), ImageAt(80, "c"), line % b"c"))
    foreign = await town.serve(telling(ImageAt(91, "c"), ImageAt(91, "c"), line % b"other"))
    garbage = await town.serve(telling(ImageAt(92, "c"), ImageAt(92, "c"), b"\xff\x00"))
    town.knows(older, foreign, garbage)
    assert await town.asker().newest() is None
    town.knows(older, foreign, garbage, await town.lender(image(3)))
    assert await town.asker().newest() == image(3)


async def test_a_process_without_an_address_book_asks_the_seeds_which_must_agree_on_the_cluster(
    town: Town, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = await town.lender(image(3, "a")), await town.lender(image(4, "b"))
    assert await town.asker(first).newest() == image(3, "a")
    assert await town.asker(first, second).newest() is None
    assert "several clusters" in caplog.text


def test_seeds_are_hosts_and_ports_and_each_address_is_asked_once(tmp_path: Path) -> None:
    town = Town(tmp_path, tmp_path)
    (tmp_path / "1").touch()
    town.knows(f"unix:{tmp_path}/1")
    asker = town.asker("storage-1:7000", f"unix:{tmp_path}/1", "storage-1:7000")
    assert asker.addresses() == [f"unix:{tmp_path}/1", "tcp:storage-1:7000"]


async def test_that_nobody_has_an_image_is_said_once_until_it_is_different(town: Town, caplog: pytest.LogCaptureFixture) -> None:
    asker = town.asker(f"unix:{town.sockets}/1")
    assert [await asker.newest() for _ in range(3)] == [None, None, None]
    warnings = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert [record.getMessage() for record in warnings] == ["waits for the metadata store, or for a peer that has an image"]
    await town.lender(ClusterImage())
    assert await asker.newest() is None
    assert len([record for record in caplog.records if record.levelno == logging.WARNING]) == 2


async def test_an_image_is_made_once_for_all_requests_and_lets_other_work_have_its_turn(town: Town) -> None:
    large = image(9, nodes=2000)
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    lending, calls = ImageLending(lambda: large), list[Call]()

    def note(call: Call) -> object:
        calls.append(call)
        return lending.methods[IMAGE](call)

    town.knows(await town.serve({IMAGE_AT: lending.methods[IMAGE_AT], IMAGE: note}))  # type: ignore[dict-item]
    counting = asyncio.create_task(count())
    images = await asyncio.gather(*(town.asker().newest() for _ in range(3)))
    counting.cancel()
    assert images == [large] * 3
    assert len(calls) == 3
    assert turns > 2000 / peers_module.LINES_PER_TURN


# -- the last known addresses of peers


def member(node_id: int, incarnation: int = 1, port: int = 7000) -> Member:
    return Member(STORAGE, node_id, incarnation, HOST, tcp_address=f"tcp:host-{node_id}:{port}")


async def noted(town: Town) -> tuple[MemoryStore, ImageFollower, Callable[..., object]]:
    store = MemoryStore()

    async def write(*operations: Operation) -> None:
        result = await store.txn([], operations)
        assert result.outcome is Outcome.OK
        await follower.wait_for(result.revision, 60)

    follower = ImageFollower(store.peer())
    await follower.start()
    town.asker().note_members_of(follower)
    await write(Put(keys.CLUSTER_ID, encode("c")), Put(keys.member(GATEWAY, 1), encode(Member(GATEWAY, 1, 5, HOST, "tcp:me:1"))))
    return store, follower, write


async def test_members_are_written_down_as_they_come_and_go_but_for_oneself(town: Town) -> None:
    _, follower, write = await noted(town)
    await write(Put(keys.member(STORAGE, 1), encode(member(1))), Put(keys.member(STORAGE, 2), encode(member(2))))  # type: ignore[misc]
    assert town.asker().addresses() == ["tcp:host-1:7000", "tcp:host-2:7000"]
    await write(Delete(keys.member(STORAGE, 1)), Put(keys.member(STORAGE, 2), encode(member(2, port=8))))  # type: ignore[misc]
    assert town.asker().addresses() == ["tcp:host-2:8"]
    assert AddressBook(FS, str(town.data)).book.cluster_id == "c"
    await follower.close()


async def test_a_restart_that_changes_no_address_writes_nothing(town: Town) -> None:
    _, follower, write = await noted(town)
    await write(Put(keys.member(STORAGE, 1), encode(member(1))))  # type: ignore[misc]
    before = (town.data / "peers").stat().st_ino
    await write(Put(keys.member(STORAGE, 1), encode(member(1, incarnation=2))))  # type: ignore[misc]
    assert (town.data / "peers").stat().st_ino == before
    await follower.close()


async def test_when_all_members_vanish_together_their_addresses_stay(town: Town) -> None:
    _, follower, write = await noted(town)
    await write(Put(keys.member(STORAGE, 1), encode(member(1))))  # type: ignore[misc]
    await write(Delete(keys.MEMBERS, prefix=True))  # type: ignore[misc]
    assert town.asker().addresses() == ["tcp:host-1:7000"]
    await follower.close()


@pytest.mark.parametrize("content", [b"", b"\x00\x00\x00", b"[]", b'{"cluster_id": 3}'])
def test_a_book_that_a_power_cut_spoilt_is_an_empty_one(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "peers").write_bytes(content)
    book = AddressBook(FS, str(tmp_path))
    assert book.book == Book()
    book.write(Book("c", (Address(STORAGE, 1, HOST, "", "tcp:h:1"),)))
    assert AddressBook(FS, str(tmp_path)).book.addresses[0].tcp_address == "tcp:h:1"


def test_a_book_that_cannot_be_written_is_said_and_harms_nobody(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    book = AddressBook(FS, str(tmp_path / "missing"))
    book.write(Book("c", (Address(STORAGE, 1, HOST, "", "tcp:h:1"),)))
    assert "addresses of peers could not be written" in caplog.text
