"""One Fetch of a client: asks the node behind the addressed broker id, asks again where that failed, and answers.

A read may be asked for as often as need be, whether it was sent or not. While it is parked at a node that is no longer the right
one (another leads, or the follower left the ISR) it is taken back as soon as the image says so, and begun anew: then it is
answered at once with who leads now, or, on the bootstrap port, asked of the new leader. While nobody leads, it waits.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any

from libs.rpc.client import Response
from libs.rpc.contracts.storage import FETCH, Fetched, FetchReply
from libs.rpc.errors import ContractError, Disconnected, Overloaded, RpcError, RpcFailure
from libs.rpc.schema import unpack
from libs.telemetry.logs import fields
from libs.wire.errors import ErrorCode
from libs.wire.messages.fetch import FetchRequest
from services.gateway import fetch_answer, read_on
from services.gateway.core.fetch_plan import FetchPlan, plan
from services.gateway.core.fetch_shape import FULL_FETCHES, FetchShape
from services.gateway.data_path import DataPath
from services.gateway.exchange import Exchange
from services.gateway.files import FileGone
from services.gateway.nodes import StorageNode
from services.gateway.record_ranges import Part, Ranges, length_of, open_and_pin, parts, pin

log = logging.getLogger(__name__)

NOT_LEADER = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
STORAGE_ERROR = int(ErrorCode.KAFKA_STORAGE_ERROR)

PATIENCE_S = 10.0
"""On top of the client's max_wait, for the node to read and answer."""
RETRY_S_MAX = 5.0


class PendingFetch:
    """A request from its checks to its answer. The RPC client calls it with the outcome: there a new image finds it."""

    __slots__ = (
        "_asked_before",
        "_began",
        "_data_path",
        "_deadline",
        "_exchange",
        "_node",
        "_plan",
        "_request",
        "_request_id",
        "_shape",
        "_task",
    )

    def __init__(self, data_path: DataPath, exchange: Exchange, request: FetchRequest, shape: FetchShape | None) -> None:
        self._data_path = data_path
        self._exchange = exchange
        self._request = request
        self._shape = shape
        self._plan = FetchPlan(-1)
        self._node: StorageNode | None = None
        self._request_id: int | None = None
        self._task: asyncio.Task[None] | None = None
        self._asked_before = False
        self._began = asyncio.get_running_loop().time()
        self._deadline = self._began + min(max(0, request.max_wait_ms) / 1000, RETRY_S_MAX)

    def start(self) -> None:
        if self._request.session_epoch not in FULL_FETCHES:
            self._finish(int(ErrorCode.FETCH_SESSION_ID_NOT_FOUND), {})
            return
        self._exchange.on_hang_up = self._hang_up
        self._ask()

    # --- asking -------------------------------------------------------------------------------------------------------

    def _ask(self) -> None:
        self._plan = made = plan(self._data_path.routes, self._request, self._exchange.connection.broker_id)
        if not made.asked:
            if made.leaderless:
                self._try_again()
            else:
                self._answer({})
            return
        node = self._data_path.nodes.ready(made.node_id)
        if node is None or not self._send(node):
            self._try_again()

    def _send(self, node: StorageNode) -> bool:
        request, asked = self._request, self._plan.asked
        # Kafka answers at once when any partition has an error.
        wait = len(asked) == len(self._plan.results)
        max_wait_ms = self._left_ms() if wait else 0
        body = [
            max_wait_ms,
            request.min_bytes,
            min(request.max_bytes, self._data_path.config.fetch_bytes_max),
            request.isolation_level,
            [of_partition for _, of_partition in asked],
            not node.same_host,
            -1,
        ]
        if request.rack_id:
            body += [request.rack_id, self._plan.follows]
        try:
            self._request_id = node.client.send(FETCH, body, (), self, timeout_s=max_wait_ms / 1000 + PATIENCE_S)
        except (Overloaded, Disconnected):
            return False
        self._node = node
        self._exchange.sent_at = asyncio.get_running_loop().time()
        return True

    def _left_ms(self) -> int:
        """Of the client's max_wait: all of it at first, and what remains when we ask again."""
        max_wait_ms = max(0, self._request.max_wait_ms)
        if not self._asked_before:
            return max_wait_ms
        return max(0, max_wait_ms - int((asyncio.get_running_loop().time() - self._began) * 1000))

    def follow(self) -> None:
        """While it is under way: a new image, by which another node may have to be asked."""
        made = plan(self._data_path.routes, self._request, self._exchange.connection.broker_id)
        if made.is_as(self._plan) or self._request_id is None:
            return
        self._take_back()
        self._asked_before = True
        self._ask()

    def _try_again(self) -> None:
        """When somebody may be there to ask; at the latest when the client's patience ends."""
        self._asked_before = True
        left_s = self._deadline - asyncio.get_running_loop().time()
        if left_s <= 0:
            self._answer({})
        else:
            self._run(partial(self._ask_later, left_s))

    async def _ask_later(self, left_s: float) -> None:
        told = asyncio.Event()
        self._data_path.unready.wait(told.set)
        try:
            async with asyncio.timeout(left_s):
                await told.wait()
        except TimeoutError:
            pass
        finally:
            self._data_path.unready.take_back(told.set)
        self._task = None
        self._ask()

    # --- answering ----------------------------------------------------------------------------------------------------

    def __call__(self, outcome: Response | Exception) -> None:
        self._request_id = None
        try:
            self._replied(outcome)
        except Exception:
            self._give_up()

    def _run(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Made in the task: one that is cancelled before its first turn would leave a coroutine that nobody awaits."""
        self._task = asyncio.get_running_loop().create_task(self._guarded(work))

    async def _guarded(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await work()
        except Exception:
            self._give_up()

    def _give_up(self) -> None:
        """In an `except`: it can have no answer, so its connection ends."""
        log.exception("fetch not answered", extra=fields(version=self._exchange.api_version))
        self._exchange.close("internal", "no answer to a Fetch")

    def _replied(self, outcome: Response | Exception) -> None:
        asked, results = self._plan.asked, self._plan.results
        try:
            if isinstance(outcome, Exception):
                raise outcome
            fetched = unpack(FetchReply, outcome.body).partitions
            if len(fetched) != len(asked):
                raise ContractError(f"{len(fetched)} results for {len(asked)} partitions")
        except RpcError as error:
            for slot, _ in asked:
                results[slot] = Fetched(error.code)
            self._answer({})
            return
        except RpcFailure:
            self._try_again()
            return
        except ContractError as error:
            log.warning("fetch failed", extra=fields(error=str(error)))
            self._exchange.close("internal", "bad answer of a storage node")
            return
        records: dict[int, Sequence[Part]] = {}
        ranges: Ranges = {}
        position = 0
        for (slot, _), result in zip(asked, fetched, strict=True):
            results[slot] = result
            if result.inline_length:
                records[slot] = (outcome.payload[position : position + result.inline_length],)
                position += result.inline_length
            elif result.ranges:
                ranges[slot] = result.ranges
        if not ranges:
            self._answer(records)
            return
        assert self._node is not None
        # Of the process that has just answered, and not of one that may follow it: file ids mean nothing in another.
        incarnation = self._node.incarnation
        opened = pin(self._data_path.files, self._node, incarnation, ranges)
        if opened is not None:
            records |= parts(ranges, opened, self._data_path.config.sendfile_bytes_min)
            if self._shape is not None:
                topic_id = asked[0][1][0]
                read_on.learn(self._data_path, self._shape, self._node, incarnation, topic_id, fetched[0], records.get(0, ()))
            self._answer(records)
        else:
            self._run(partial(self._open_and_answer, self._node, incarnation, ranges, records))

    async def _open_and_answer(
        self, node: StorageNode, incarnation: int, ranges: Ranges, records: dict[int, Sequence[Part]]
    ) -> None:
        try:
            opened = await open_and_pin(self._data_path.files, node, incarnation, ranges)
        except (FileGone, RpcFailure, ContractError) as error:
            log.info("segment file not opened", extra=fields(node=node.node_id, error=str(error)))
            for slot, _ in self._plan.asked:
                self._plan.results[slot] = Fetched(STORAGE_ERROR)
            self._try_again()
            return
        self._task = None
        self._answer(records | parts(ranges, opened, self._data_path.config.sendfile_bytes_min))

    def _answer(self, records: dict[int, Sequence[Part]]) -> None:
        self._finish(0, records)

    def _finish(self, error: int, records: dict[int, Sequence[Part]]) -> None:
        exchange, results = self._exchange, self._plan.results
        if self._shape is not None and fetch_answer.is_plain(results[0]):
            result, of_sole = results[0], records.get(0, ())
            length = length_of(of_sole)
            before, after = self._shape.answer(
                exchange.correlation_id, result.high_watermark, result.last_stable_offset, result.log_start_offset, length
            )
            exchange.finish((before, *of_sole, after))
            return
        exchange.finish(fetch_answer.frame(self._data_path, exchange, self._request, error, results, records))

    def _hang_up(self) -> None:
        self._take_back()
        if self._task is not None:
            self._task.cancel()

    def _take_back(self) -> None:
        if self._request_id is not None and self._node is not None:
            request_id, self._request_id = self._request_id, None
            self._node.client.cancel(request_id)
