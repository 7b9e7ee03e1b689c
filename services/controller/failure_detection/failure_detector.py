"""The failure detector: it receives heartbeats, notices lost connections, and probes.
`services/controller/core/failure_detection/liveness.py` decides.

Every controller runs one, active or standby, so that the next active controller knows at once. It watches storage nodes,
coordinators, quota managers, gateways and the other controllers.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence

from libs.cluster.health import LongRunning
from libs.cluster.image import ClusterImage
from libs.cluster.image_follower import ImageFollower
from libs.cluster.member_addresses import address_of
from libs.cluster.records import CONTROLLER, GATEWAY, GROUP_COORDINATOR, QUOTA_MANAGER, STORAGE, TRANSACTION_COORDINATOR
from libs.rpc.client.probe import refuses
from libs.rpc.contracts.controller import Heartbeat, HeartbeatReply
from libs.rpc.messages.schema import unpack
from libs.rpc.server.call import Call, Peer
from libs.rpc.transport.transport import Transport
from libs.telemetry.logs import fields
from services.controller.core.failure_detection.findings import ReportedFindings
from services.controller.core.failure_detection.liveness import Liveness, Process, State
from services.controller.core.failure_detection.reachability import Reachability
from services.controller.core.model.cuts import NO_CUTS, Cuts

log = logging.getLogger("controller")

TICK_S = 0.2
PROBE_S = 0.5
WATCHED = (STORAGE, GROUP_COORDINATOR, TRANSACTION_COORDINATOR, QUOTA_MANAGER, GATEWAY, CONTROLLER)


class FailureDetector:
    """The failure detector of one controller. `start` it once the image is followed, and give it heartbeats and lost connections
    from then on."""

    def __init__(self, follower: ImageFollower, transport: Transport, host_id: str, node_id: int, silence_ms: int) -> None:
        """`node_id` is this controller's id. A member that is silent for `silence_ms` is taken for dead."""
        self._follower, self._transport, self._host_id, self._node_id = follower, transport, host_id, node_id
        self._liveness = Liveness(silence_ms)
        self._reachability = Reachability()
        self._findings = ReportedFindings()
        self._elected: Callable[[], bool] = lambda: False
        self._listeners: list[Callable[[], None]] = []
        self._probes: set[asyncio.Task[None]] = set()
        self._probing: asyncio.TimerHandle | None = None
        self._ticking: asyncio.TimerHandle | None = None
        self._unsubscribe: Callable[[], None] = lambda: None
        self._known: tuple[bool, tuple[Process, ...], Cuts] = (False, (), NO_CUTS)
        self.cut_offs = 0
        """How often this controller was cut off."""

    @property
    def cut_off(self) -> bool:
        return self._liveness.cut_off

    def dead(self) -> list[Process]:
        """Dead members that the image still shows."""
        return self._liveness.dead()

    def suspected(self) -> frozenset[int]:
        """Registered storage nodes that are suspected or dead."""
        members = self._follower.image.members(STORAGE).items()
        states = {node_id: self._liveness.state(Process(STORAGE, node_id, member.incarnation)) for node_id, member in members}
        return frozenset(node_id for node_id, state in states.items() if state not in (None, State.ALIVE))

    def cuts(self) -> Cuts:
        """The storage nodes that some processes cannot reach."""
        return self._reachability.cuts(self._now_ms())

    def long_running(self) -> Sequence[LongRunning]:
        """What takes too long, as coordinators say, the longest first."""
        return self._findings.longest(self._now_ms())

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

    def subscribe(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Calls `listener` when a member dies or turns out to live, when this controller is cut off or no longer so, and when
        `cuts` change. Returns what ends that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def report_elected(self, elected: Callable[[], bool]) -> None:
        """`elected` says whether this controller is active, for the answers to heartbeats."""
        self._elected = elected

    # --- facts

    def heartbeat(self, call: Call) -> None:
        heartbeat = unpack(Heartbeat, call.body)
        call.peer.require_sender(heartbeat.node_id, heartbeat.incarnation, heartbeat.role)
        process, now_ms = Process(heartbeat.role, heartbeat.node_id, heartbeat.incarnation), self._now_ms()
        lives_anew = self._liveness.heartbeat(process, now_ms)
        self._reachability.report(process, heartbeat.unreachable, now_ms)
        self._findings.report(process, heartbeat.findings, now_ms)
        call.reply(HeartbeatReply(self._elected(), self._follower.image.revision))
        if lives_anew or heartbeat.unreachable:
            self._notify()

    def connection_lost(self, peer: Peer) -> None:
        process = Process(peer.role, peer.node_id, peer.incarnation)
        log.debug("connection of a process ended: it is probed", extra=_fields_of(process))
        self._liveness.connection_lost(process, self._now_ms())
        self._probe_due()

    def _follow(self, old: ClusterImage, new: ClusterImage) -> None:
        if any(old.members(role) is not new.members(role) for role in WATCHED):
            self._liveness.watch(self._registered(new), self._now_ms())
            self._reachability.watch(self._registered(new))
            self._findings.watch(self._registered(new))
            self._notify()

    def _registered(self, image: ClusterImage) -> Iterable[Process]:
        for role in WATCHED:
            for node_id, member in image.members(role).items():
                if (role, node_id) != (CONTROLLER, self._node_id):
                    yield Process(role, node_id, member.incarnation)

    def _tick(self) -> None:
        self._liveness.tick(self._now_ms(), int(TICK_S * 1000))
        self._ticking = asyncio.get_running_loop().call_later(TICK_S, self._tick)
        self._probe_due()
        self._notify()

    # --- probes

    def _probe_due(self) -> None:
        loop = asyncio.get_running_loop()
        for process in self._liveness.due_probes(self._now_ms()):
            probe = loop.create_task(self._probe(process), name=f"probe of {process.role} {process.node_id}")
            self._probes.add(probe)
            probe.add_done_callback(self._probes.discard)
        if self._probing is not None:
            self._probing.cancel()
            self._probing = None
        due_ms = self._liveness.next_probe_ms()
        if due_ms is not None:
            # A little later, since the clock is read in whole milliseconds.
            self._probing = loop.call_at((due_ms + 1) / 1000, self._probe_due)

    async def _probe(self, process: Process) -> None:
        member = self._follower.image.members(process.role).get(process.node_id)
        address = address_of(member, self._host_id) if member is not None else ""
        refused = bool(address) and await refuses(self._transport, address, PROBE_S)
        log.debug("probe refused" if refused else "probe not refused", extra=_fields_of(process))
        self._liveness.probed(process, self._now_ms(), refused=refused)
        self._probe_due()
        self._notify()

    def _now_ms(self) -> int:
        return int(asyncio.get_running_loop().time() * 1000)

    def _notify(self) -> None:
        """Calls the listeners if anything has changed."""
        known = (self._liveness.cut_off, tuple(self._liveness.dead()), self.cuts())
        if known == self._known:
            return
        (was_cut_off, were_dead, were_cut), self._known = self._known, known
        if known[0] and not was_cut_off:
            self.cut_offs += 1
        if known[0] != was_cut_off:
            log.warning("cut off from storage nodes" if known[0] else "storage nodes are heard again")
        for process in known[1]:
            if process not in were_dead:
                log.warning("taken for dead", extra=_fields_of(process))
        if known[2] != were_cut:
            self._report_cuts(known[2])
        for listener in tuple(self._listeners):
            listener()

    @staticmethod
    def _report_cuts(cuts: Cuts) -> None:
        details = fields(callers=dict(cuts.callers), peers={node_id: sorted(others) for node_id, others in cuts.peers.items()})
        log.warning("storage nodes are not reached by all" if cuts != NO_CUTS else "all are reached again", extra=details)

    def debug(self) -> object:
        """For the admin port."""
        shown = {_name(each): _named(self._liveness.state(each)) for each in self._registered(self._follower.image)}
        cuts = self.cuts()
        return {
            "cut_off": self.cut_off,
            "processes": shown,
            "heard": [_name(each) for each in self._liveness.heard()],
            "callers_cut": dict(cuts.callers),
            "peers_cut": {node_id: sorted(others) for node_id, others in cuts.peers.items()},
        }


def _fields_of(process: Process) -> dict[str, object]:
    """For a line of the log."""
    return fields(role=process.role, node=process.node_id, incarnation=process.incarnation)


def _name(process: Process) -> str:
    return f"{process.role}-{process.node_id}"


def _named(state: State | None) -> str | None:
    return state.value if state is not None else None
