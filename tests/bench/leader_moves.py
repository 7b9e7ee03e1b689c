"""The wait of a dead node's partitions for the controller: `python -m tests.bench.leader_moves`, one JSON line per shape.

A real etcd with its syncs, a real controller process, and storage nodes that exist in the metadata alone. The clock runs from the
moment at which the node's member key is deleted (its lease, or whoever noticed, is not measured) to the moment at which another
process's image shows each of its leaderships elsewhere, and then no ISR with it in.
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from libs.cluster import keys
from libs.cluster.codec import encode
from libs.cluster.etcd.etcd_store import EtcdStore
from libs.cluster.image import ClusterImage
from libs.cluster.image_follower import ImageFollower
from libs.cluster.records import STORAGE, Member, PartitionState
from libs.cluster.store import Delete, Put
from libs.rpc.client.rpc_client import RpcClient
from libs.rpc.contracts.controller import (
    ALTER_PARTITIONS,
    CREATE_TOPICS,
    AlterPartitions,
    AlterPartitionsReply,
    CreateTopics,
    NewIsr,
    NewTopic,
    TopicsReply,
)
from libs.rpc.messages.envelope import Hello
from libs.rpc.messages.errors import RpcFailure
from libs.rpc.messages.schema import pack, unpack
from libs.rpc.transport.socket_transport import SocketTransport
from libs.wire.errors import ErrorCode
from tests.support.ports import reserve_ports

ROOT = Path(__file__).resolve().parents[2]
SHAPES = ((10, 10_000), (3, 10_000))
"""(nodes, partitions): with ten nodes a dead one leads 1,000 and follows 2,000; with three it leads a third and is in all."""
TOPIC_SIZE = 100


@contextmanager
def processes(folder: Path) -> Iterator[tuple[str, str]]:
    """etcd and a controller: etcd's endpoint and the controller's address."""
    ports = reserve_ports(3)
    client, peer, admin = range(ports.first, ports.first + 3)
    etcd = [
        *(str(ROOT / ".tools/etcd/etcd"), "--data-dir", str(folder / "etcd"), "--log-level", "error"),
        *("--listen-client-urls", f"http://127.0.0.1:{client}", "--advertise-client-urls", f"http://127.0.0.1:{client}"),
        *("--listen-peer-urls", f"http://127.0.0.1:{peer}", "--initial-advertise-peer-urls", f"http://127.0.0.1:{peer}"),
        *("--initial-cluster", f"default=http://127.0.0.1:{peer}"),
    ]
    environment = {
        **os.environ,
        "PENSTOCK_NODE_ID": "1",
        "PENSTOCK_DATA_DIR": str(folder / "controller"),
        "PENSTOCK_ETCD": f"127.0.0.1:{client}",
        "PENSTOCK_RPC_UNIX": str(folder / "controller.sock"),
        "PENSTOCK_ADMIN_PORT": str(admin),
    }
    with open(folder / "log", "wb") as log:
        running = [subprocess.Popen(etcd, stdout=log, stderr=log)]
        command = [sys.executable, "-m", "services.controller"]
        running.append(subprocess.Popen(command, env=environment, cwd=ROOT, stdout=log, stderr=log))
        try:
            yield f"127.0.0.1:{client}", f"unix:{folder}/controller.sock"
        finally:
            for process in reversed(running):
                process.kill()
                process.wait()
            ports.release()


async def measure(nodes: int, partitions: int, deaths: int) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as folder, processes(Path(folder)) as (endpoint, address):
        store = EtcdStore((endpoint,))
        follower = ImageFollower(store)
        await follower.start()
        client = RpcClient(address, lambda: Hello("gateway", 1, 1, "bench", 1, follower.image.cluster_id), SocketTransport())
        try:
            for node_id in range(nodes):
                await register(store, node_id, 1)
            await create(client, partitions)
            led, moved, gone, back = [], [], [], []
            for victim in range(deaths):
                theirs = [state for state in states(follower.image) if state.leader == victim]
                led.append(len(theirs))
                loop = asyncio.get_running_loop()
                began = loop.time()
                await store.txn([], [Delete(keys.member(STORAGE, victim))])
                await shown(follower, partial(led_by_another, victim))
                moved.append(loop.time() - began)
                await shown(follower, partial(out_of_sync, victim))
                gone.append(loop.time() - began)
                await register(store, victim, 2 + victim)
                await follower.wait_for((await store.range(keys.MEMBERS)).revision, 10)
                began = loop.time()
                await expand(client, follower.image)
                await shown(follower, lambda state: len(state.isr) == 3)
                back.append(loop.time() - began)
            return {
                "case": "leaders of a dead node moved",
                "nodes": nodes,
                "partitions": partitions,
                "deaths": deaths,
                "led": max(led),
                "moved_s": {"median": round(statistics.median(moved), 3), "max": round(max(moved), 3)},
                "out_of_all_isrs_s": {"median": round(statistics.median(gone), 3), "max": round(max(gone), 3)},
                "back_in_all_isrs_s": {"median": round(statistics.median(back), 3), "max": round(max(back), 3)},
            }
        finally:
            await client.close()
            await follower.close()
            await store.close()


def led_by_another(node_id: int, state: PartitionState) -> bool:
    return state.leader != node_id


def out_of_sync(node_id: int, state: PartitionState) -> bool:
    return all(member.node_id != node_id for member in state.isr)


async def register(store: EtcdStore, node_id: int, incarnation: int) -> None:
    member = Member(STORAGE, node_id, incarnation, f"host-{node_id}", log_dirs=(f"{node_id:032x}",))
    await store.txn([], [Put(keys.member(STORAGE, node_id), encode(member))])


async def expand(client: RpcClient, image: ClusterImage) -> None:
    """Each leader finds all of its replicas in sync, and says so in one request."""
    incarnations = {node_id: member.incarnation for node_id, member in image.members(STORAGE).items()}
    proposals: dict[int, list[NewIsr]] = {}
    for topic_id in image.topics_by_id:
        for index, state in enumerate(image.partitions_of(topic_id)):
            if state is not None and len(state.isr) < len(state.replicas):
                isr = tuple((replica.node_id, incarnations[replica.node_id]) for replica in state.replicas)
                proposal = NewIsr(topic_id, index, state.leader_epoch, state.partition_epoch, isr)
                proposals.setdefault(state.leader, []).append(proposal)
    requests = [AlterPartitions(leader, incarnations[leader], tuple(found)) for leader, found in proposals.items()]
    answers = await asyncio.gather(*(client.call(ALTER_PARTITIONS, pack(each), timeout_s=60) for each in requests))
    errors = [result.error for answer in answers for result in unpack(AlterPartitionsReply, answer.body).partitions]
    if any(errors):  # the controller's image is behind ours
        await asyncio.sleep(0.01)
        await expand(client, image)


async def create(client: RpcClient, partitions: int) -> None:
    topics = tuple(NewTopic(f"t{number}", TOPIC_SIZE, 3) for number in range(partitions // TOPIC_SIZE))
    while True:
        try:
            response = await client.call(CREATE_TOPICS, pack(CreateTopics(topics)), timeout_s=120)
        except RpcFailure:
            await asyncio.sleep(0.2)  # there is no active controller yet
            continue
        results = unpack(TopicsReply, response.body).topics
        assert not any(result.error not in (0, ErrorCode.TOPIC_ALREADY_EXISTS) for result in results), results[0]
        return


def states(image: ClusterImage) -> Iterator[PartitionState]:
    for topic_id in image.topics_by_id:
        yield from (state for state in image.partitions_of(topic_id) if state is not None)


async def shown(follower: ImageFollower, holds: Callable[[PartitionState], bool]) -> None:
    seen, missing = ClusterImage(), set[tuple[bytes, int]]()
    while True:
        image = follower.image
        for change in image.partition_changes_since(seen):
            if change.after is None or holds(change.after):
                missing.discard((change.topic_id, change.index))
            else:
                missing.add((change.topic_id, change.index))
        seen = image
        if not missing:
            return
        await follower.wait_for(image.revision + 1, 60)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--deaths", type=int, default=3)
    arguments = parser.parse_args()
    for nodes, partitions in SHAPES:
        print(json.dumps(asyncio.run(measure(nodes, partitions, arguments.deaths))), flush=True)


if __name__ == "__main__":
    main()
