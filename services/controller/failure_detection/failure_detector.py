"""Watches over the living: takes heartbeats, notices connections that end, and probes. core/detection.py says what follows.

Every controller does, elected or not, so that whoever is elected next knows at once. Storage nodes, coordinators and gateways are
watched, and the other controllers.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable

from libs.cluster.follower import ImageFollower
from libs.cluster.image import ClusterImage
from libs.cluster.reaching import address_of
from libs.cluster.records import CONTROLLER, GATEWAY, GROUP_COORDINATOR, STORAGE
from libs.rpc.call import Call, Peer
from libs.rpc.contracts.controller import Heartbeat, HeartbeatReply
from libs.rpc.knock import refuses
from libs.rpc.schema import unpack
from libs.rpc.transport import Transport
from libs.telemetry.logs import fields
from services.controller.core.detection import Detection, Process, State

log = logging.getLogger(__name__)

TICK_S = 0.2
PROBE_S = 0.5
WATCHED = (STORAGE, GROUP_COORDINATOR, GATEWAY, CONTROLLER)


class Vigil:
    """`start` it with the image followed, and give it heartbeats and ended connections from then on."""

    def __init__(self, follower: ImageFollower, transport: Transport, host_id: str, node_id: int) -> None:
        """`node_id` is this controller's own."""
        self._follower, self._transport, self._host_id, self._node_id = follower, transport, host_id, node_id
        self._detection = Detection()
        self._elected: Callable[[], bool] = lambda: False
        self._told: list[Callable[[], None]] = []
        self._probes: set[asyncio.Task[None]] = set()
        self._probing: asyncio.TimerHandle | None = None
        self._ticking: asyncio.TimerHandle | None = None
        self._unsubscribe: Callable[[], None] = lambda: None
        self._known: tuple[bool, tuple[Process, ...]] = (False, ())
        self.cut_offs = 0
        """How often this controller has found itself cut off."""

    @property
    def cut_off(self) -> bool:
        return self._detection.cut_off

    def dead(self) -> list[Process]:
        """Of those that the image shows."""
        return self._detection.dead()

    def doubted(self) -> frozenset[int]:
        """Registered storage nodes that may have ended: nobody knows yet, or their keys are about to go."""
        members = self._follower.image.members(STORAGE).items()
        states = {node_id: self._detection.state(Process(STORAGE, node_id, member.incarnation)) for node_id, member in members}
        return frozenset(node_id for node_id, state in states.items() if state not in (None, State.ALIVE))

    def start(self) -> None:
        self._unsubscribe = self._follower.subscribe(self._follow)
        self._follow(ClusterImage(), self._follower.image)
        self._tick()

    def close(self) -> None:
        self._unsubscribe()
        for timer in (self._probing, self._ticking):
            if timer is not None:
                timer.cancel()
        for probe in self._probes:
            probe.cancel()

    def subscribe(self, told: Callable[[], None]) -> Callable[[], None]:
        """Called when somebody is dead, or is not after all, and when this controller is cut off or no longer so."""
        self._told.append(told)
        return lambda: self._told.remove(told)

    def answer_for(self, elected: Callable[[], bool]) -> None:
        """What heartbeats are answered."""
        self._elected = elected

    # --- facts

    def heartbeat(self, call: Call) -> None:
        said = unpack(Heartbeat, call.body)
        self._detection.heartbeat(Process(said.role, said.node_id, said.incarnation), self._now_ms())
        call.reply(HeartbeatReply(self._elected(), self._follower.image.revision))
        self._tell()

    def connection_lost(self, peer: Peer) -> None:
        self._detection.connection_lost(Process(peer.role, peer.node_id, peer.incarnation), self._now_ms())
        self._probe_due()

    def _follow(self, old: ClusterImage, new: ClusterImage) -> None:
        if any(old.members(role) is not new.members(role) for role in WATCHED):
            self._detection.watch(self._registered(new), self._now_ms())
            self._tell()

    def _registered(self, image: ClusterImage) -> Iterable[Process]:
        for role in WATCHED:
            for node_id, member in image.members(role).items():
                if (role, node_id) != (CONTROLLER, self._node_id):
                    yield Process(role, node_id, member.incarnation)

    def _tick(self) -> None:
        self._detection.tick(self._now_ms(), int(TICK_S * 1000))
        self._ticking = asyncio.get_running_loop().call_later(TICK_S, self._tick)
        self._probe_due()
        self._tell()

    # --- probes

    def _probe_due(self) -> None:
        loop = asyncio.get_running_loop()
        for process in self._detection.due_probes(self._now_ms()):
            probe = loop.create_task(self._probe(process), name=f"probe of {process.role} {process.node_id}")
            self._probes.add(probe)
            probe.add_done_callback(self._probes.discard)
        if self._probing is not None:
            self._probing.cancel()
            self._probing = None
        due_ms = self._detection.next_probe_ms()
        if due_ms is not None:
            # A little later than asked for, since the clock is read in whole milliseconds.
            self._probing = loop.call_at((due_ms + 1) / 1000, self._probe_due)

    async def _probe(self, process: Process) -> None:
        member = self._follower.image.members(process.role).get(process.node_id)
        address = address_of(member, self._host_id) if member is not None else ""
        refused = bool(address) and await refuses(self._transport, address, PROBE_S)
        self._detection.probed(process, self._now_ms(), refused=refused)
        self._probe_due()
        self._tell()

    def _now_ms(self) -> int:
        return int(asyncio.get_running_loop().time() * 1000)

    def _tell(self) -> None:
        """Whoever listens, if anything is different now."""
        known = (self._detection.cut_off, tuple(self._detection.dead()))
        if known == self._known:
            return
        (was_cut_off, were_dead), self._known = self._known, known
        if known[0] and not was_cut_off:
            self.cut_offs += 1
        if known[0] != was_cut_off:
            log.warning("cut off from storage nodes" if known[0] else "storage nodes are heard again")
        for process in known[1]:
            if process not in were_dead:
                found = fields(role=process.role, node=process.node_id, incarnation=process.incarnation)
                log.warning("taken for dead", extra=found)
        for told in tuple(self._told):
            told()

    def debug(self) -> object:
        """For the admin port."""
        shown = {_name(each): _named(self._detection.state(each)) for each in self._registered(self._follower.image)}
        return {"cut_off": self.cut_off, "processes": shown, "heard": [_name(each) for each in self._detection.heard()]}


def _name(process: Process) -> str:
    return f"{process.role}-{process.node_id}"


def _named(state: State | None) -> str | None:
    return state.value if state is not None else None
