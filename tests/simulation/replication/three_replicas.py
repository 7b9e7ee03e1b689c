"""The stage of the stories of three replicas: nodes 1 to 3, the controller's core, and every message between them.

Time is virtual, each message takes a millisecond, and each sync round one to five. A message is shown when it arrives.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import Any

from libs.cluster.image import ClusterImage
from libs.cluster.records import PartitionState, Replica
from libs.rpc.contracts.controller import AlterPartitions, AlterPartitionsReply
from libs.rpc.contracts.replication import PROGRESS, PULL, Progress, Pull, Pulled, PullReply
from libs.rpc.messages.schema import unpack
from libs.wire.errors import ErrorCode
from services.controller.core.reassignment.reassignment import begun
from services.storage.partition.partition import Partition
from tests.simulation.replication.controller import Controller
from tests.simulation.replication.member import KEY, StorageMember, config_of
from tests.simulation.replication.memory_log import epoch_of
from tests.simulation.replication.network import Call, Network
from tests.simulation.replication.run import BATCHES
from tests.simulation.replication.simulator import NO_PROCESS, Simulator
from tests.support.stories import Command

STEP_MS = 40
"""The time that a step takes, if it does not say otherwise."""
NAMES = {-1: "client", 0: "controller"}
TIMEOUT_MS = 30_000


class Steady(Random):
    """Chance that hardly varies: what is sent first arrives first."""

    def __init__(self) -> None:
        super().__init__(0)
        self._drawn = 0

    def random(self) -> float:
        self._drawn += 1
        return 0.15 + self._drawn * 1e-7


class SteadySimulator(Simulator):
    def stream(self, name: str) -> Random:
        return Steady()


class ShownNetwork(Network):
    def __init__(self, simulator: Simulator, show: Callable[[int, int, str], None]) -> None:
        super().__init__(simulator)
        self._show = show

    def arrived(self, sender: int, receiver: int, message: object, payload: bytes | memoryview = b"") -> None:
        self._show(sender, receiver, described(message, bytes(payload)))


class ThreeReplicas:
    """Plays the commands of a story. Node 1 leads at first. With `replicas=1,2` in the first `start`, node 3 has no replica yet.

    A step takes `STEP_MS`, or what its `wait` says. `look` comes last in its step.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        simulator = self.simulator = SteadySimulator(0)
        self.network = ShownNetwork(simulator, self._show)
        configs = {"durability": "synced", "min.insync.replicas": "2"}
        self.controller = Controller(simulator, self.network, configs, lambda state: None)
        self.nodes = {node_id: self._member(node_id) for node_id in (1, 2, 3)}
        self.controller.nodes = tuple(self.nodes.values())
        self._produced = 0

    def run(self, commands: Sequence[Command]) -> list[str]:
        self.lines = []
        failures = self.simulator.run(self._run(commands))
        assert not failures, failures
        return self.lines

    async def _run(self, commands: Sequence[Command]) -> None:
        waits = [command for command in commands if command.verb == "wait"]
        for command in commands:
            if command.verb not in ("wait", "look"):
                getattr(self, f"_{command.verb}")(command)
        await asyncio.sleep(sum(command.number("ms") for command in waits) / 1000 if waits else STEP_MS / 1000)
        if any(command.verb == "look" for command in commands):
            self.lines += self._looks()

    def _member(self, node_id: int) -> StorageMember:
        return StorageMember(
            self.simulator,
            self.network,
            node_id,
            others=lambda other: self.nodes[other],
            ask=self.controller.alter,
            loses=lambda: False,
            on_start=lambda node: self._later(1, self._register, node),
            on_high_watermark=lambda node, partition: None,
        )

    def _show(self, sender: int, receiver: int, message: str) -> None:
        self.lines.append(f"{NAMES.get(sender, sender)} -> {NAMES.get(receiver, receiver)}: {message}")

    def _later(self, ms: float, work: Callable[..., object], *arguments: object) -> None:
        self.simulator.loop.call_later(ms / 1000, work, *arguments, context=NO_PROCESS)

    def _register(self, node: StorageMember) -> None:
        self._show(node.node_id, 0, f"Register, incarnation {node.incarnation}")
        self.controller.register(node)
        self.controller.show(node)

    # -- commands ---------------------------------------------------------------------------------------------------------

    def _start(self, command: Command) -> None:
        """The first start of a story also creates the partition."""
        if "replicas" in command.arguments:
            ids, state = command.numbers("replicas"), self.controller.state
            isr = tuple(member for member in state.isr if member.node_id in ids)
            self.controller.state = replace(state, replicas=tuple(Replica(node_id, "d") for node_id in ids), isr=isr)
        for node_id in command.numbers("nodes"):
            self.nodes[node_id].start(config_of(self.controller.image))

    def _produce(self, command: Command) -> None:
        node, acks = self.nodes[command.number("to")], command.arguments["acks"]
        count = command.number("records", 1)
        batches = [BATCHES[self._produced + number] for number in range(count)]
        self._produced += count
        epoch = self.controller.state.leader_epoch
        for batch in batches:
            body = [-1 if acks == "all" else int(acks), TIMEOUT_MS, [[*KEY, epoch, len(batch)]], None, self.controller.revision]
            self._show(-1, node.node_id, f"Produce, acks {acks}")
            call = Call(body, memoryview(bytearray(batch)), lambda body, _, error: self._produce_answered(node, body, error))
            self.simulator.loop.call_soon(node.produce, call, context=node.context)

    def _produce_answered(self, node: StorageMember, body: Any, error: Exception | None) -> None:
        code, offset = body[0][0][:2] if error is None else (-1, -1)
        self._show(node.node_id, -1, f"{ErrorCode(code).name}" if code else f"Appended at offset {offset}")

    def _kill(self, command: Command) -> None:
        """Ends the process. What it wrote stays, synced or not; its peers see their connections close."""
        node = self.nodes[command.number("node")]
        self.lines.append(f"{node.node_id} is killed")
        node.crash(power=False)
        for other in self.nodes.values():
            for connection in list(other.connections):
                if connection.receiver is node:
                    connection.reset()

    def _expire(self, command: Command) -> None:
        """The controller takes the node for dead."""
        node = self.nodes[command.number("node")]
        self.controller.drop(node.node_id, node.incarnation)

    def _block(self, command: Command) -> None:
        """What these nodes send each other arrives `ms` later."""
        one, other = command.numbers("nodes")
        until = self.simulator.loop.time() + command.number("ms") / 1000
        self.network.blocked[one, other] = self.network.blocked[other, one] = until

    def _reassign(self, command: Command) -> None:
        state = begun(self.controller.state, command.numbers("to"), lambda node_id: "d")
        self.controller.write(replace(state, partition_epoch=state.partition_epoch + 1))
        self.controller.settle_soon()

    # -- states -----------------------------------------------------------------------------------------------------------

    def _looks(self) -> Iterator[str]:
        yield f"controller: {_state(self.controller.state)}"
        for node in self.nodes.values():
            partition = node.partition
            yield f"{node.node_id}: " + ("not running" if partition is None else _replica(node, partition))


def _replica(node: StorageMember, partition: Partition) -> str:
    if KEY not in node.partitions.by_key:
        return "holds no replica"
    role, log = "leads" if partition.leading else "follows", node.log
    epochs = ",".join(f"{epoch}@{start}" for epoch, start in log.epochs.entries()) or "none"
    return (
        f"{role} in epoch {partition.leader_epoch}, log end {log.log_end_offset}, durable {log.durable_offset}, "
        f"high watermark {partition.high_watermark}, epochs {epochs}"
    )


def _state(state: PartitionState) -> str:
    leader = state.leader if state.leader >= 0 else "none"
    isr = _members(tuple(member) for member in state.isr)
    text = f"leader {leader}, epoch {state.leader_epoch}.{state.partition_epoch}, ISR {isr}"
    replicas = ",".join(str(replica.node_id) for replica in state.replicas)
    moves = [f"{verb} {','.join(map(str, ids))}" for verb, ids in (("adding", state.adding), ("removing", state.removing)) if ids]
    return ", ".join([text, f"replicas {replicas}", *moves])


def _members(members: Any) -> str:
    """`2,1:3`: node 1 in incarnation 3. Incarnation 1 is not written."""
    return ",".join(f"{node}" if life == 1 else f"{node}:{life}" for node, life in members)


def described(message: object, payload: bytes) -> str:
    """One message, in the order: kind, epochs, offsets, high watermark."""
    match message:
        case ClusterImage():
            members = _members((node, member.incarnation) for node, member in sorted(message.members("storage").items()))
            state = message.partition(*KEY)
            assert state is not None
            return f"Image {message.revision}, {_state(state)}, nodes {members or 'none'}"
        case (str() as method, body) if method == PULL:
            return _pull(unpack(Pull, body))
        case (str() as method, body) if method == PROGRESS:
            (made,) = unpack(Progress, body).partitions
            return f"Progress, epoch {made.leader_epoch}, durable {made.durable_offset}"
        case (_, AlterPartitions(partitions=(asked,))):
            return f"AlterPartition, epoch {asked.leader_epoch}.{asked.partition_epoch}, ISR {_members(asked.isr)}"
        case Exception():
            return f"{type(message).__name__}: {message}"
        case [[*_], int()] as body:
            return _answer(body, payload)
        case _:
            raise AssertionError(message)


def _pull(pull: Pull) -> str:
    name = "Pull" if pull.sequence else "Pull (new session)"
    if pull.dropped:
        return f"{name}, follows no more"
    if not pull.partitions:
        return f"{name}, as before"
    (asked,) = pull.partitions
    last = f"last epoch {asked.last_fetched_epoch}" if asked.last_fetched_epoch >= 0 else "empty"
    return f"{name}, epoch {asked.leader_epoch}, from {asked.fetch_offset}, durable {asked.durable_offset}, {last}"


def _answer(body: list[Any], payload: bytes) -> str:
    """A PullReply or an AlterPartitionsReply: both are a list of partitions and a number."""
    if body[0] and isinstance(body[0][0][0], int):
        (altered,) = unpack(AlterPartitionsReply, body).partitions
        if altered.error:
            return f"AlterPartition refused: {ErrorCode(altered.error).name}"
        return f"AlterPartition done, epoch {altered.leader_epoch}.{altered.partition_epoch}, ISR {_members(altered.isr)}"
    partitions = unpack(PullReply, body).partitions
    return _pulled(partitions[0], payload) if partitions else "Pulled, nothing new"


def _pulled(pulled: Pulled, payload: bytes) -> str:
    if pulled.error:
        return f"Pulled, epoch {pulled.leader_epoch}: {ErrorCode(pulled.error).name}"
    if pulled.diverging_epoch >= 0:
        end = f"epoch {pulled.diverging_epoch} ends at {pulled.diverging_end_offset}"
        return f"Pulled, epoch {pulled.leader_epoch}, diverging: {end}"
    records = [f"{offset}@{epoch}" for offset, epoch in _batches(payload)]
    what = f"records {' '.join(records)}" if records else "no records"
    return f"Pulled, epoch {pulled.leader_epoch}, {what}, log end {pulled.log_end_offset}, high watermark {pulled.high_watermark}"


def _batches(payload: bytes) -> Iterator[tuple[int, int]]:
    """(offset, leader epoch) of each batch, which has one record."""
    at = 0
    while at < len(payload):
        yield int.from_bytes(payload[at : at + 8], "big"), epoch_of(payload[at:])
        at += 12 + int.from_bytes(payload[at + 8 : at + 12], "big")
