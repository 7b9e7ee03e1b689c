"""A stand-in for a broker that answers Produce 9 and Fetch 12 as a test wants: kio reads the requests and writes the answers."""

import asyncio
import ssl
import struct
import threading
from collections.abc import Callable, Sequence
from datetime import timedelta
from types import TracebackType
from typing import Any

from kio.schema.errors import ErrorCode
from kio.schema.fetch.v12 import request as fetch_request
from kio.schema.fetch.v12 import response as fetch_response
from kio.schema.produce.v9 import request as produce_request
from kio.schema.produce.v9 import response as produce_response
from kio.schema.request_header.v2.header import RequestHeader
from kio.schema.response_header.v1.header import ResponseHeader
from kio.serial import entity_reader
from kio.static.primitive import i16, i32, i32Timedelta, i64

from tests.wire.kio_messages import decode, encode

Answer = Callable[[Any], Any]
"""From a request to an answer: a message of kio's, bytes in its place, or None for no answer."""


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def answered(correlation_id: int, message: Any) -> bytes:
    """The frame of an answer."""
    return framed(encode(ResponseHeader(correlation_id=i32(correlation_id))) + encode(message))


def produced(request: Any, error: ErrorCode = ErrorCode.none) -> Any:
    topics = []
    for topic in request.topic_data:
        partitions = [
            produce_response.PartitionProduceResponse(index=p.index, error_code=error, base_offset=i64(0), record_errors=())
            for p in topic.partition_data
        ]
        topics.append(produce_response.TopicProduceResponse(name=topic.name, partition_responses=tuple(partitions)))
    return produce_response.ProduceResponse(responses=tuple(topics))


def fetched(request: Any, batches: Sequence[bytes], error: ErrorCode = ErrorCode.none) -> Any:
    """From a log of one-record batches in each partition."""
    topics = []
    for topic in request.topics:
        partitions = []
        for asked in topic.partitions:
            found, size = b"", asked.partition_max_bytes
            for batch in batches[asked.fetch_offset :]:
                found += batch
                if len(found) >= size:
                    break
            partitions.append(
                fetch_response.PartitionData(
                    partition_index=asked.partition,
                    error_code=error,
                    high_watermark=i64(len(batches)),
                    aborted_transactions=None,
                    records=found[:size] or None,
                )
            )
        topics.append(fetch_response.FetchableTopicResponse(topic=topic.topic, partitions=tuple(partitions)))
    return fetch_response.FetchResponse(
        throttle_time=i32Timedelta.parse(timedelta(milliseconds=3)), error_code=ErrorCode.none, responses=tuple(topics)
    )


class StandInBroker:
    """Use as a context manager; it has a thread of its own. `requests`: all that came, in order, as (correlation id, message)."""

    def __init__(self, answer: Answer, *, tls: ssl.SSLContext | None = None) -> None:
        self.requests: list[tuple[int, Any]] = []
        self.port = 0
        self.stalls: list[tuple[int, float]] = []
        """From the request of that number on, answers wait for so many seconds once."""
        self._answer = answer
        self._tls = tls
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="stand-in-broker")

    def __enter__(self) -> "StandInBroker":
        self._thread.start()
        self._ready.wait(60)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def connection(self, *partitions: int) -> str:
        """As the load generator names it."""
        return f"127.0.0.1:{self.port}/{','.join(map(str, partitions))}"

    def _run(self) -> None:
        server = self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0, limit=1 << 24, ssl=self._tls))
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        self._loop.run_forever()
        server.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                answer = self._answer_to(await reader.readexactly(size))
                if self.stalls and len(self.requests) >= self.stalls[0][0]:
                    await asyncio.sleep(self.stalls.pop(0)[1])
                if answer is not None:
                    writer.write(answer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    def _answer_to(self, frame: bytes) -> bytes | None:
        header, size = entity_reader(RequestHeader)(memoryview(frame), 0)
        kinds = {
            (i16(0), i16(9)): produce_request.ProduceRequest,
            (i16(1), i16(12)): fetch_request.FetchRequest,
        }
        request = decode(kinds[header.request_api_key, header.request_api_version], frame[size:])
        self.requests.append((header.correlation_id, request))
        answer = self._answer(request)
        if answer is None or isinstance(answer, bytes):
            return answer
        return answered(header.correlation_id, answer)
