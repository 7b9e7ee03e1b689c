"""Promises that only the kernel can witness: bytes that no process reads, and syncs that come before answers."""

import contextlib
import os
import re
from itertools import pairwise
from pathlib import Path

from libs.wire.errors import ErrorCode
from services.local.probe import ask
from tests.compat.clients.admin import Admin
from tests.gateway.kafka_client import RawClient, fetch_body, produce_body
from tests.storage.cluster import batch
from tests.support.cluster_harness import LocalCluster
from tests.support.open_files import open_files
from tests.system.faults.conftest import ONE_REPLICA
from tests.system.faults.placement import leaders
from tests.system.faults.raw_connection import raw_client
from tests.system.faults.system_calls import traced

VERSION = 9
READ_VERSION = 11
READS = ("read", "pread64", "readv", "preadv", "preadv2", "recvfrom", "recvmsg", "mmap", "splice", "copy_file_range")
MEGABYTE = 1_000_000
REFUSED = {ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_LEADER_OR_FOLLOWER}  # 6 once the controller has heard of it


async def produce(
    client: RawClient, topic: str, records: bytes, acks: int = -1, partition: int = 0, timeout_ms: int = 10_000
) -> int:
    body = produce_body(VERSION, [(topic, [(partition, records)])], acks=acks, timeout_ms=timeout_ms)
    (answer,) = await client.produce(VERSION, body)
    return answer.error


async def fetch(client: RawClient, topic: str, offset: int = 0) -> bytes:
    _, (found,) = await client.fetch(READ_VERSION, fetch_body(READ_VERSION, [(topic, [(0, offset)])]))
    assert found.error == 0
    return found.records


def mapped(pid: int) -> str:
    return Path(f"/proc/{pid}/maps").read_text(encoding="utf-8")


def files_of(topic: str, maps: str) -> set[str]:
    """The names of the mapped files of the topic's first partition."""
    return set(re.findall(rf"/{topic}-0/(\S+)", maps))


async def test_a_megabyte_is_fetched_by_sendfile_and_nobody_reads_it(cluster: LocalCluster, topic: str) -> None:
    admin = Admin(cluster.bootstrap)
    admin.create(topic)
    name = f"storage-{leaders(admin, topic)[0]}"
    records = batch(os.urandom(MEGABYTE))
    async with raw_client(cluster.shape.port) as client:
        assert await produce(client, topic, records) == 0
        assert await fetch(client, topic) != b""  # the gateway has the file open from here on
        with (
            traced(cluster.pid("gateway-1"), "-e", f"trace=sendfile,{','.join(READS)}") as gateway,
            traced(cluster.pid(name), "-e", f"trace=sendfile,{','.join(READS)}") as storage,
        ):
            found = await fetch(client, topic)
    assert found[61:] == records[61:]
    sent = [call for call in gateway.of("sendfile") if call.result > 0 and re.search(rf"{topic}-0/\d+\.log", call.arguments)]
    assert sum(call.result for call in sent) >= len(records)
    for trace in (gateway, storage):
        carried = [call for call in trace.of(*READS) if call.name != "mmap" and call.result > 0]
        assert sum(call.result for call in carried) < 50_000, carried
        assert not [call for call in trace.of("mmap") if ".log" in call.arguments]
    assert not storage.of("sendfile")
    assert f"{topic}-0" not in mapped(cluster.pid("gateway-1"))


async def test_a_storage_node_maps_sealed_indexes_and_nothing_else_of_a_log(cluster: LocalCluster, topic: str) -> None:
    """ADR 23: before a block of a mapped index is touched, the kernel says that it is there. A sector of any other file that
    could not be read under a mapping would be the end of the process."""
    admin = Admin(cluster.bootstrap)
    admin.create(topic, config={"segment.bytes": str(1 << 20)})
    async with raw_client(cluster.shape.port) as client:
        for _ in range(120):  # more than a segment, with an index entry for each batch
            assert await produce(client, topic, batch(b"x" * 10_000)) == 0
        assert await fetch(client, topic, offset=57) != b""
    leader = leaders(admin, topic)[0]
    files = {node: files_of(topic, mapped(cluster.pid(f"storage-{node}"))) for node in (1, 2, 3)}
    assert files.pop(leader) == {"00000000000000000000.index"}
    assert not any(files.values()), "a follower looks nothing up"


def sockets(pid: int) -> set[str]:
    """Their inodes."""
    return {name[1] for file in open_files(pid) if (name := re.fullmatch(r"socket:\[(\d+)\]", file))}


async def test_an_acks_all_answer_leaves_after_the_syncs_that_cover_it(cluster: LocalCluster, topic: str) -> None:
    """Each of the three writes and syncs before the leader answers, as the kernel saw it."""
    admin = Admin(cluster.bootstrap)
    admin.create(topic)
    leader = leaders(admin, topic)[0]
    watched = "trace=pwrite64,pwritev,pwritev2,writev,fdatasync,fsync,syncfs,sendmsg,sendto,write"
    with contextlib.ExitStack() as stack:
        async with raw_client(cluster.shape.port) as client:
            assert await produce(client, topic, batch(b"first")) == 0
            nodes = (1, 2, 3)
            traces = {node: stack.enter_context(traced(cluster.pid(f"storage-{node}"), "-e", watched)) for node in nodes}
            for number in range(10):
                assert await produce(client, topic, batch(b"%d" % number)) == 0
            of_gateway = sockets(cluster.pid("gateway-1"))
    log = rf"/{topic}-0/\d+\.log"
    happened: list[tuple[float, int, str]] = []
    for node, trace in traces.items():
        for call in trace.calls:
            if call.name.startswith("pwrite") and re.search(log, call.file):
                happened.append((call.begun, node, "written"))
            elif (call.name == "fdatasync" and re.search(log, call.file)) or call.name == "syncfs":
                assert call.result == 0
                happened.append((call.ended, node, "synced"))
            elif node == leader and call.name in ("sendmsg", "sendto"):
                peer = re.match(r"UNIX[^[]*\[\d+->(\d+),", call.file)
                if peer is not None and peer[1] in of_gateway:
                    happened.append((call.begun, node, "answered"))
    story = [(node, what) for _, node, what in sorted(happened)]
    ends = [index for index, (_, what) in enumerate(story) if what == "answered"]
    assert len(ends) == 10
    for begin, end in pairwise([-1, *ends]):
        produced = story[begin + 1 : end]
        for node in nodes:
            assert [what for where, what in produced if where == node] == ["written", "synced"], (node, story)
    assert len(story) == ends[-1] + 1


async def test_a_disk_that_fails_to_sync_is_retired_and_never_acknowledges_again(topic: str) -> None:
    with LocalCluster(storage=2, environment=ONE_REPLICA, expected_complaints="log directory retired") as cluster:
        admin = Admin(cluster.bootstrap)
        admin.create(topic, 8)
        of_1 = [partition for partition, node in leaders(admin, topic).items() if node == 1]
        of_2 = [partition for partition, node in leaders(admin, topic).items() if node == 2]
        async with raw_client(cluster.shape.port) as client:
            assert await produce(client, topic, batch(b"kept"), partition=of_1[0]) == 0
            fault = "inject=fdatasync,fsync,syncfs:error=EIO"
            with traced(cluster.pid("storage-1"), "-e", "trace=fdatasync,fsync,syncfs", "-e", fault):
                first = await produce(client, topic, batch(b"lost"), partition=of_1[0])
                others = [await produce(client, topic, batch(b"lost"), partition=index, timeout_ms=200) for index in of_1[1:]]
            assert first == ErrorCode.KAFKA_STORAGE_ERROR
            assert set(others) <= REFUSED
            # The disk is well again. What the kernel dropped meanwhile stays dropped, and nobody may build on it.
            for acks in (-1, 1):
                assert await produce(client, topic, batch(b"x"), acks=acks, partition=of_1[0], timeout_ms=200) in REFUSED
            assert [await produce(client, topic, batch(b"x"), partition=partition) for partition in of_2] == [0] * len(of_2)
        assert "every log directory has failed" in ask(cluster.shape.admin_port("storage", 1), "/readyz", timeout_s=60)[1]
        assert cluster.is_running("storage-1")
