"""Records what real clients send into tests/wire/recorded/: `python -m tests.wire.record_clients`.

Each client works through a proxy before a cluster of its own. Of each API and version the first request with another content
is kept, as it was framed. Run it again when a client in constraints.txt changes.
"""

import asyncio
import contextlib
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin import NewTopic as AioTopic
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from tests.compat.kafka.tools import run_tool
from tests.support.cluster_harness import LocalCluster
from tests.support.ports import reserve_ports

RECORDED = Path(__file__).parent / "recorded"
PER_VERSION = 2
BROKERS = 2  # the bootstrap port and one broker


class Recorder:
    """Proxies on a thread of their own. `frames` are the frames that clients sent, with their length prefixes."""

    def __init__(self, first: int, target: int) -> None:
        self._first, self._target = first, target
        self.frames: list[bytes] = []
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "Recorder":
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self) -> None:
        for number in range(BROKERS):
            self._loop.run_until_complete(
                asyncio.start_server(self._proxy(self._target + number), "127.0.0.1", self._first + number)
            )
        self._ready.set()
        self._loop.run_forever()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    def _proxy(self, port: int) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], object]:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            back, forth = await asyncio.open_connection("127.0.0.1", port)
            answers = asyncio.create_task(_copy(back, writer))
            with contextlib.suppress(asyncio.IncompleteReadError, OSError):
                while True:
                    length = await reader.readexactly(4)
                    frame = length + await reader.readexactly(int.from_bytes(length, "big"))
                    self.frames.append(frame)
                    forth.write(frame)
            answers.cancel()
            forth.close()
            writer.close()

        return serve

    def distinct(self) -> bytes:
        kept: dict[tuple[int, int], list[bytes]] = {}
        for frame in self.frames:
            of_version = kept.setdefault(struct.unpack_from(">hh", frame, 4), [])
            bodies = [frame_of_version[12:] for frame_of_version in of_version]
            if len(frame) < 4096 and len(of_version) < PER_VERSION and frame[12:] not in bodies:
                of_version.append(frame)
        return b"".join(frame for key in sorted(kept) for frame in kept[key])


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1 << 16):
        writer.write(data)


def librdkafka(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic("recorded-c", 2, 1, config={"retention.ms": "1000"})])["recorded-c"].result(60)
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "compression.type": "lz4"})
    for number in range(5):
        producer.produce("recorded-c", b"value %d" % number, key=b"key", partition=0, headers={"header": b"1"})
    producer.flush(20)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g", "enable.auto.commit": False})
    consumer.list_topics(timeout=60)
    consumer.offsets_for_times([TopicPartition("recorded-c", 0, 1)], timeout=60)
    consumer.assign([TopicPartition("recorded-c", 0, OFFSET_BEGINNING)])
    assert len(consumer.consume(5, timeout=60)) == 5
    consumer.close()
    resource = ConfigResource(ResourceType.TOPIC, "recorded-c")
    admin.describe_configs([resource])[resource].result(60)
    admin.describe_cluster().result(60)
    admin.delete_topics(["recorded-c"])["recorded-c"].result(60)


def java(bootstrap: str) -> None:
    at = ("--bootstrap-server", bootstrap)
    run_tool("kafka-topics", *at, "--create", "--topic", "recorded-j", "--partitions", "2", "--replication-factor", "1")
    run_tool("kafka-topics", *at, "--describe", "--topic", "recorded-j")
    run_tool("kafka-topics", *at, "--alter", "--topic", "recorded-j", "--partitions", "3")
    run_tool("kafka-console-producer", *at, "--topic", "recorded-j", stdin=b"one\ntwo\n")
    run_tool("kafka-get-offsets", *at, "--topic", "recorded-j")
    consumer = ("kafka-console-consumer", *at, "--topic", "recorded-j", "--partition", "0")
    run_tool(*consumer, "--offset", "earliest", "--timeout-ms", "2000", check=False)
    configs = ("kafka-configs", *at, "--entity-type", "topics", "--entity-name", "recorded-j")
    run_tool(*configs, "--alter", "--add-config", "retention.ms=5000")
    run_tool("kafka-topics", *at, "--delete", "--topic", "recorded-j")


def aiokafka(bootstrap: str) -> None:
    async def work() -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await admin.start()
        await admin.create_topics([AioTopic("recorded-a", 1, 1)])
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True, compression_type="gzip")
        await producer.start()
        for number in range(5):
            await producer.send_and_wait("recorded-a", b"value %d" % number, key=b"key")
        await producer.stop()
        consumer = AIOKafkaConsumer("recorded-a", bootstrap_servers=bootstrap, auto_offset_reset="earliest")
        await consumer.start()
        assert (await asyncio.wait_for(consumer.getone(), 20)).value == b"value 0"
        await consumer.stop()
        await admin.delete_topics(["recorded-a"])
        await admin.close()

    asyncio.run(work())


def main() -> None:
    RECORDED.mkdir(exist_ok=True)
    ports = reserve_ports(BROKERS)
    environment = {"gateway-1": {"PENSTOCK_ADVERTISED_PORT_BASE": str(ports.first)}}
    with LocalCluster(environment_of=environment) as cluster:
        for client in (librdkafka, java, aiokafka):
            with Recorder(ports.first, cluster.shape.port) as recorder:
                client(f"127.0.0.1:{ports.first}")
            (RECORDED / f"{client.__name__}.bin").write_bytes(recorder.distinct())
            print(client.__name__, len(recorder.frames), file=sys.stderr)
    ports.release()


if __name__ == "__main__":
    try:
        main()
    except subprocess.TimeoutExpired as slow:
        sys.exit(str(slow))
