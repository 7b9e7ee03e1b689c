"""Broker loggers, which DescribeConfigs and IncrementalAlterConfigs treat as resources with configs (KIP-412).

A broker's loggers are those of two processes: this gateway, which serves its address, and its storage node. Controllers,
coordinators and quota managers are no brokers, and Kafka has no name for them there. So the loggers of what only they do, such as
`groups`, are set in all of them, whichever broker is named (`libs/telemetry/loggers.py:Concern`).

A gateway stands for several broker ids, so its levels hold for all of them. As in Kafka, levels are not stored. They last until
the process ends.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from libs.cluster.configs.describe import DescribedConfig
from libs.cluster.image import ClusterImage
from libs.cluster.records import STORAGE
from libs.rpc.contracts.controller import ConfigChange, ConfigResource, ConfigResult
from libs.rpc.contracts.log_levels import CHANGE, DESCRIBE, ChangeLogLevels, DescribeLogLevels, LevelChange, LogLevels
from libs.rpc.messages.errors import RpcError
from libs.telemetry import log_levels
from libs.telemetry.loggers import CONCERNS, own_name
from libs.wire.errors import ErrorCode
from services.gateway.core.config_resources import Refused, check_broker
from services.gateway.exchange.request_context import GatewayState, NodeUnavailable, RequestContext

BROKER_LOGGER: Final = 8
"""Kafka's resource type of a broker's loggers; the name is the broker id."""
ANSWER_S: Final = 2.0
"""How long other processes have for their part."""
_SOURCE: Final = 6
"""DYNAMIC_BROKER_LOGGER_CONFIG."""
_NO_TYPE: Final = 0
_SET, _DELETE = 0, 1
_OPERATIONS: Final = {_SET: "SET", _DELETE: "DELETE", 2: "APPEND", 3: "SUBTRACT"}


class _Process(NamedTuple):
    """A process beside this gateway. `loggers` has those that are asked for there. None: all."""

    role: str
    node_id: int
    loggers: frozenset[str] | None

    def has(self, logger: str) -> bool:
        return self.loggers is None or own_name(logger) in self.loggers


_Changes = dict[str, LevelChange]
"""By the logger's own name: what happens to it."""
_BESIDE_BROKERS: Final = {
    role: frozenset(name for name, concern in CONCERNS.items() if role in concern.beside_brokers)
    for role in sorted({role for concern in CONCERNS.values() for role in concern.beside_brokers})
}
"""The loggers of each role whose processes are no brokers."""


def _storage_node(image: ClusterImage, broker_id: int) -> list[_Process]:
    """The storage node of a broker, if it is a member."""
    return [_Process(STORAGE, broker_id, None)] if broker_id in image.members(STORAGE) else []


def _beside_brokers(image: ClusterImage) -> list[_Process]:
    """The members of other roles, whichever broker is named."""
    return [
        _Process(role, node_id, loggers) for role, loggers in _BESIDE_BROKERS.items() for node_id in sorted(image.members(role))
    ]


class BrokerLevels:
    """The levels of the brokers of one request, for which each process is asked once, all at the same time."""

    def __init__(self, image: ClusterImage, addressed: int) -> None:
        self._image = image
        self._addressed = addressed
        self._everywhere: Mapping[str, str] = {}
        """Of this gateway, and of the processes that are no brokers."""
        self._by_node: dict[int, Mapping[str, str]] = {}

    async def ask(self, gateway: GatewayState, names: Iterable[str]) -> None:
        """Asks for brokers of these names, as far as they may be named."""
        named = set[int]()
        for name in names:
            with suppress(Refused):
                named.add(_broker_id(self._image, self._addressed, name))
        if not named:
            return
        asked = _beside_brokers(self._image) + [process for each in sorted(named) for process in _storage_node(self._image, each)]
        answers = await _ask_all(gateway, DESCRIBE, dict.fromkeys(asked, DescribeLogLevels()))
        beside = []
        for process, answer in answers.items():
            if isinstance(answer, LogLevels):
                levels = {logger: level for logger, level in answer.levels if process.has(logger)}
                if process.role == STORAGE:
                    self._by_node[process.node_id] = levels
                else:
                    beside.append(levels)
        self._everywhere = log_levels.finest([log_levels.levels(), *beside])

    def describe(self, name: str) -> list[DescribedConfig]:
        """The level of each logger of a broker. Where processes differ, it is the level that lets the most through. A process
        that did not answer is left out. Raises Refused."""
        of_node = self._by_node.get(_broker_id(self._image, self._addressed, name), {})
        return [
            DescribedConfig(logger, level, _SOURCE, False, False, (), _NO_TYPE, "")
            for logger, level in log_levels.finest([self._everywhere, of_node]).items()
        ]


async def alter_loggers(
    gateway: GatewayState, context: RequestContext, resources: Sequence[ConfigResource], validate_only: bool
) -> list[ConfigResult]:
    """Changes levels. Of one resource, all changes are valid or none happens. A process that does not answer makes the result
    REQUEST_TIMED_OUT, after which clients ask again; the others have the new level then. Of two resources that change one logger
    of a process, the later one counts."""
    image, mentions = gateway.image, Counter(resource.name for resource in resources)
    found: list[Refused | tuple[int, _Changes]] = []
    for resource in resources:
        try:
            if mentions[resource.name] > 1:
                raise Refused(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            broker_id = _broker_id(image, context.broker_id, resource.name)
            _check_changes(resource.changes)
            found.append((broker_id, {own_name(change.name): _wanted(change) for change in resource.changes}))
        except Refused as refused:
            found.append(refused)
    failures: dict[_Process, str] = {}
    if not validate_only:
        failures = await _change(gateway, context.asker, image, [each for each in found if not isinstance(each, Refused)])
    outcomes = [each if isinstance(each, Refused) else _unanswered(*each, failures) for each in found]
    return [
        ConfigResult(resource.resource_type, resource.name, ErrorCode.NONE)
        if outcome is None
        else ConfigResult(resource.resource_type, resource.name, outcome.error, outcome.message)
        for resource, outcome in zip(resources, outcomes, strict=True)
    ]


async def _change(
    gateway: GatewayState, asked_by: str, image: ClusterImage, wanted: Sequence[tuple[int, _Changes]]
) -> dict[_Process, str]:
    """Changes levels here and in other processes, each of which is asked once. Returns why some did not answer."""
    everywhere: _Changes = {}
    asked: dict[_Process, _Changes] = {}
    for broker_id, changes in wanted:
        everywhere.update(changes)
        for process in _storage_node(image, broker_id):
            asked.setdefault(process, {}).update(changes)
    for change in everywhere.values():
        log_levels.set_level(change.logger, change.level, asked_by)
    for process in _beside_brokers(image):
        asked[process] = {logger: change for logger, change in everywhere.items() if process.has(logger)}
    bodies = {process: ChangeLogLevels(tuple(changes.values()), asked_by) for process, changes in asked.items() if changes}
    answers = await _ask_all(gateway, CHANGE, bodies)
    return {process: answer for process, answer in answers.items() if isinstance(answer, str)}


def _unanswered(broker_id: int, changes: _Changes, failures: Mapping[_Process, str]) -> Refused | None:
    """What a resource is told of processes that did not answer, if they have loggers of it."""
    reasons = [
        reason
        for process, reason in failures.items()
        if (process.role != STORAGE or process.node_id == broker_id) and any(process.has(logger) for logger in changes)
    ]
    if not reasons:
        return None
    message = f"The levels are set, but not in these processes, which did not answer: {'; '.join(reasons)}"
    return Refused(ErrorCode.REQUEST_TIMED_OUT, message)


def _wanted(change: ConfigChange) -> LevelChange:
    return LevelChange(change.name, change.value if change.operation == _SET else None)


async def _ask_all(gateway: GatewayState, method: str, bodies: Mapping[_Process, object]) -> dict[_Process, LogLevels | str]:
    """What each process answers, or why it does not. All together have `ANSWER_S`."""
    answers = await asyncio.gather(*(_ask(gateway, process, method, body) for process, body in bodies.items()))
    return dict(zip(bodies, answers, strict=True))


async def _ask(gateway: GatewayState, process: _Process, method: str, body: object) -> LogLevels | str:
    role, node_id, _ = process
    try:
        return await gateway.member(role, node_id, method, body, LogLevels, timeout_s=ANSWER_S)
    except (RpcError, NodeUnavailable) as error:
        return f"{role}-{node_id} ({error})"


def _broker_id(image: ClusterImage, addressed: int, name: str) -> int:
    if not name:
        raise Refused(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
    return check_broker(image, addressed, name, alternative="")


def _check_changes(changes: Sequence[ConfigChange]) -> None:
    if len({own_name(change.name) for change in changes}) < len(changes):
        raise Refused(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    for change in changes:
        if change.operation not in (_SET, _DELETE):
            operation = _OPERATIONS.get(change.operation, "unknown")
            raise Refused(ErrorCode.INVALID_REQUEST, f"{operation} operation is not allowed for the BROKER_LOGGER resource")
        if change.operation == _SET and change.value is None:
            raise Refused(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {change.name}")
        try:
            log_levels.check(change.name, change.value if change.operation == _SET else None)
        except log_levels.Refused as refused:
            error = ErrorCode.INVALID_CONFIG if refused.unsupported else ErrorCode.INVALID_REQUEST
            raise Refused(error, str(refused)) from refused
