"""The files and functions of ours that one request passes: `python -m tests.bench.request_path`.

    [--list]

All services run in one process, as in `penstock dev`, and `sys.setprofile` counts calls. A function is on a request's path if
each of REQUESTS requests called it, and an idle cluster did not. One JSON line per kind of request; `--list` names the functions.
"""

import argparse
import importlib
import json
import os
import signal
import socket
import struct
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from libs.wire.api_keys import ApiKey, request_header_version, response_header_version
from libs.wire.primitives import Reader, Writer
from libs.wire.record_batches.records import Record, build_batch

ROOT = Path(__file__).resolve().parents[2]
OURS = tuple(f"{ROOT}/{folder}/" for folder in ("libs", "services"))
REQUESTS = 50
IDLE_S = 3.0
MARKERS_S = 0.1
"""The time for a transaction's markers, which are written behind its answer."""
TOPIC, GROUP, TRANSACTION = "path", "group", "transaction"
RETRIABLE = (3, 5, 14, 15, 16, 51)
"""Errors of a cluster whose topics and coordinators have just begun, and of a transaction that still ends."""


class Watch:
    """The calls of each function, while it watches."""

    def __init__(self) -> None:
        self.calls: Counter[CodeType] = Counter()
        self._on = False

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        if self._on and event == "call":
            self.calls[frame.f_code] += 1

    @contextmanager
    def watching(self) -> Iterator[None]:
        self._on = True
        try:
            yield
        finally:
            self._on = False

    def taken(self) -> dict[CodeType, int]:
        calls, self.calls = self.calls, Counter()
        return {code: count for code, count in calls.items() if code.co_filename.startswith(OURS)}


class Client:
    """One connection of a client, which waits for each answer."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._answers = self._socket.makefile("rb")

    def ask(self, key: ApiKey, version: int, body: bytes) -> Reader:
        """A reader of the answer's body."""
        flexible = request_header_version(key, version) == 2
        frame = struct.pack(">hhih", key, version, 1, 5) + b"bench" + b"\0" * flexible + body
        self._socket.sendall(struct.pack(">i", len(frame)) + frame)
        (length,) = struct.unpack(">i", self._answers.read(4))
        reader = Reader(memoryview(self._answers.read(length)))
        reader.int32()
        if response_header_version(key, version) == 1:
            reader.skip_tagged_fields()
        return reader

    def send(self, key: ApiKey, version: int, request: object) -> Any:
        module = importlib.import_module(f"libs.wire.messages.{key.name.lower()}")
        writer = Writer()
        module.write_request(writer, request, version)
        return module.read_response(self.ask(key, version, bytes(writer.buffer)), version)

    def produce(self, batch: bytes, transactional_id: str | None = None) -> int:
        """The error."""
        writer, version = Writer(), 8
        writer.nullable_string(transactional_id, False)
        writer.int16(-1)
        writer.int32(30_000)
        writer.array_length(1, False)
        writer.string(TOPIC, False)
        writer.array_length(1, False)
        writer.int32(0)
        writer.nullable_data(batch, False)
        reader = self.ask(ApiKey.PRODUCE, version, bytes(writer.buffer))
        reader.array_length(False)
        reader.string(False)
        reader.array_length(False)
        reader.int32()
        return reader.int16()


def messages(name: str) -> Any:
    return importlib.import_module(f"libs.wire.messages.{name}")


def settled(ask: Callable[[], int]) -> None:
    """Asks until the error is none of those that pass."""
    while (error := ask()) in RETRIABLE:
        time.sleep(0.01)
    assert not error, error


def batch(**of_producer: Any) -> bytes:
    return bytes(build_batch([Record(None, b"x" * 100)], **of_producer))


def committed(client: Client) -> int:
    wire = messages("offset_commit")
    topic = wire.OffsetCommitRequestTopic(name=TOPIC, partitions=[wire.OffsetCommitRequestPartition(0, 1)])
    answer = client.send(ApiKey.OFFSET_COMMIT, 8, wire.OffsetCommitRequest(GROUP, topics=[topic]))
    error: int = answer.topics[0].partitions[0].error_code
    return error


def ready(client: Client) -> tuple[int, int]:
    """Creates the topics, and returns the producer's id and epoch."""
    finds, ids = messages("find_coordinator"), messages("init_producer_id")
    writer = Writer()
    writer.array_length(1, False)
    writer.string(TOPIC, False)
    writer.int8(1)  # created on demand
    client.ask(ApiKey.METADATA, 4, bytes(writer.buffer))
    for kind, key in enumerate((GROUP, TRANSACTION)):
        request = finds.FindCoordinatorRequest(key=key, key_type=kind)
        settled(lambda request=request: client.send(ApiKey.FIND_COORDINATOR, 2, request).error_code)  # type: ignore[misc]
    settled(lambda: committed(client))
    settled(lambda: client.produce(batch()))
    answers: list[Any] = []

    def begun() -> int:
        answers.append(client.send(ApiKey.INIT_PRODUCER_ID, 1, ids.InitProducerIdRequest(TRANSACTION, 60_000)))
        error: int = answers[-1].error_code
        return error

    settled(begun)
    return answers[-1].producer_id, answers[-1].producer_epoch


def measure(port: int, watch: Watch, *, with_names: bool) -> None:
    client = Client(port)
    producer, epoch = ready(client)
    adds, ends = messages("add_partitions_to_txn"), messages("end_txn")
    sequence = 0

    def ended(watched: bool) -> None:
        nonlocal sequence
        topics = [adds.AddPartitionsToTxnTopic(TOPIC, [0])]
        request = adds.AddPartitionsToTxnRequest([], TRANSACTION, producer, epoch, topics)

        def added() -> int:
            answer = client.send(ApiKey.ADD_PARTITIONS_TO_TXN, 1, request)
            error: int = answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
            return error

        settled(added)
        records = batch(producer_id=producer, producer_epoch=epoch, base_sequence=sequence, transactional=True)
        settled(lambda: client.produce(records, TRANSACTION))
        sequence += 1
        end = ends.EndTxnRequest(TRANSACTION, producer, epoch, True)
        if not watched:
            settled(lambda: client.send(ApiKey.END_TXN, 1, end).error_code)
            return
        with watch.watching():
            settled(lambda: client.send(ApiKey.END_TXN, 1, end).error_code)
            time.sleep(MARKERS_S)

    def produced(watched: bool) -> None:
        watch_if(watched, lambda: settled(lambda: client.produce(batch())))

    def offset_committed(watched: bool) -> None:
        watch_if(watched, lambda: settled(lambda: committed(client)))

    def watch_if(watched: bool, ask: Callable[[], None]) -> None:
        if watched:
            with watch.watching():
                ask()
        else:
            ask()

    cases = {"Produce, acks=all": produced, "OffsetCommit": offset_committed, "EndTxn, with its markers": ended}
    for act in cases.values():
        act(False)
        act(False)
    time.sleep(1.0)
    with watch.watching():
        time.sleep(IDLE_S)
    idle = watch.taken()
    for name, act in cases.items():
        for _ in range(REQUESTS):
            act(True)
        path = {code: count for code, count in watch.taken().items() if count >= REQUESTS and code not in idle}
        files = {code.co_filename for code in path}
        calls = round(sum(path.values()) / REQUESTS, 1)
        print(json.dumps({"request": name, "files": len(files), "functions": len(path), "calls": calls}), flush=True)
        if with_names:
            for code, count in sorted(path.items(), key=lambda item: (item[0].co_filename, item[0].co_firstlineno)):
                print(f"  {os.path.relpath(code.co_filename, ROOT)}:{code.co_qualname}  {count / REQUESTS:g}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="name the functions")
    given = parser.parse_args()

    from libs.runtime.lifecycle import run
    from services.dev.command_line import log_settings_of, parse, settings_of
    from services.dev.data_folder import open_data_folder
    from services.dev.serving import serve

    options = parse(["--port", "0", "--quiet"])
    settings, logging = settings_of(options), log_settings_of(options)
    folder = open_data_folder(settings.data)
    watch = Watch()

    def client_work(port: int) -> None:
        sys.setprofile(None)
        try:
            measure(port, watch, with_names=given.list)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    def announce(*where: object) -> None:
        port = int(str(where[-1]).rpartition(":")[2])
        threading.Thread(target=client_work, args=(port,)).start()

    threading.setprofile(watch)
    sys.setprofile(watch)
    try:
        run(lambda lifecycle: serve(settings, folder, logging, lifecycle, announce))
    finally:
        sys.setprofile(None)
        folder.close()


if __name__ == "__main__":
    main()
