"""The nodes of one host keep each other's listening sockets: when one dies, a sibling accepts from its port at once.

A listening socket lives as long as a process holds it. So each node passes its own to its siblings (SCM_RIGHTS over a Unix
socket), which keep them and accept nothing. When a node has died, the living sibling with the lowest id accepts from its port:
nobody is refused, and those who wait in the backlog are served. A node that starts asks for its sockets first. Its sibling
accepts until the node says that it does.

A connection to a node may break though it lives. Its Unix socket tells: it refuses the dead. One that hangs keeps all its
sockets: it is taken for dead when the cluster has taken it for dead for a moment, and until it is back.

Who has the port of a dead node passes that on to siblings, too: one of them may have started later, and have the lowest id. The
others take the port over when they have not heard that within a moment.
"""

import asyncio
import contextlib
import errno
import glob
import logging
import os
import socket
import struct
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final, Protocol

from libs.telemetry.logs import fields
from services.node.sibling_link import SiblingLink, Sockets, close_all, copies

log = logging.getLogger("network")

RETURN_S_MAX = 5.0
"""A sibling that has not answered by then is passed over: it may be stopped. Nobody can open a port that it keeps."""
OTHERS_S_MAX: Final = 0.2
"""So long a start waits for the other siblings when it has its sockets."""
BACKLOG: Final = 64
BUSY_S_MAX: Final = 0.15
"""So long a busy connection to a port that was given back may wait for a gap between two requests."""
LOOK_S: Final = 0.002
"""The pause before the next look at a sibling whose connections break at once. Most that die accept one more meanwhile."""
OFFER_AGAIN_S = 1.0
"""The pause before sockets are offered over a new connection to a sibling whose former one broke. What broke it may go on."""
HUNG_S = 2.0
"""So long a sibling's gateway has been no member of the cluster when it counts as hung. A lease may be lost for a moment."""
LEFT_S_MAX = 0.5
"""So long a port is left to the sibling with the lowest id. It may lack the socket, or descriptors, or not know of the death."""
TRY_AGAIN_S = 0.2
"""The pause after which something is tried again for which there were no descriptors."""
_NOT_NOW: Final = {errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
_UCRED: Final = struct.Struct("3i")
_SO_NETNS_COOKIE: Final = 71  # Linux 5.14 and later


class ClientPorts(Protocol):
    def sockets(self, broker_id: int) -> Sockets: ...
    def take(self, broker_id: int, sockets: Mapping[str, socket.socket]) -> None: ...
    def give_up(self, broker_id: int) -> None: ...


class Siblings:
    """Call `listen`, then `reclaim` before the own ports are opened, `offer` at once after that, since nobody else has them until
    then, and `close` before clients drain. Until `offer` it takes no port over: it could serve nobody."""

    def __init__(
        self,
        node_id: int,
        path_of: Callable[[object], str],
        ports: ClientPorts,
        *,
        on_change: Callable[[Collection[int]], None],
        drain: Callable[[int, float, float], object],
    ) -> None:
        """`path_of` gives the path of a node's socket here, and the pattern of all for `*`. `on_change` hears whose ports this
        node has. `drain` ends connections to a broker id between two requests."""
        self._node_id, self._path_of, self._ports = node_id, path_of, ports
        self._on_change, self._drain = on_change, drain
        self._loop = asyncio.get_running_loop()
        self._listening: socket.socket | None = None
        self._links: set[SiblingLink] = set()
        self._kept: dict[int, Sockets] = {}
        self._dead: set[int] = set()
        """Those that died, and do not serve again yet."""
        self._holders: dict[int, int] = {}
        """Of those that died or hang, the sibling that said that it has the port."""
        self._later: dict[int, asyncio.TimerHandle] = {}
        """Those whose ports this node takes over later, if nobody has by then."""
        self._missing: dict[int, asyncio.TimerHandle] = {}
        """Those that were members and are none, and live, until they count as hung."""
        self._hung: set[int] = set()
        self._members: frozenset[int] = frozenset()
        self._taken: set[int] = set()
        self._offers = False

    @property
    def taken(self) -> frozenset[int]:
        """The broker ids whose ports this node has in the place of a sibling."""
        return frozenset(self._taken)

    @property
    def keeps(self) -> frozenset[int]:
        """The broker ids whose sockets it keeps, and does not accept from."""
        return frozenset(self._kept.keys() - self._taken)

    @property
    def hung(self) -> frozenset[int]:
        """The siblings that live and do nothing."""
        return frozenset(self._hung)

    def debug(self) -> dict[str, list[int]]:
        """Broker ids, for `/debug/gateway`."""
        return {"taken": sorted(self.taken), "keeps": sorted(self.keeps), "hung": sorted(self.hung)}

    def listen(self) -> None:
        """Raises OSError."""
        path = self._path_of(self._node_id)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)  # the data directory's lock says that no other process is this node
        self._listening = listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        listening.setblocking(False)
        os.fchmod(listening.fileno(), 0o600)
        listening.bind(path)
        listening.listen(BACKLOG)
        self._watch(listening)

    async def reclaim(self) -> Sockets:
        """The sockets of the own ports that siblings kept. One may accept from them until `offer`. Empty: nobody has them."""
        returning: list[asyncio.Future[Sockets]] = []
        for path in glob.glob(self._path_of("*")):
            if path != self._path_of(self._node_id) and (link := self._connect(path)) is not None:
                link.returned = self._loop.create_future()
                returning.append(link.returned)
                link.send({"node": self._node_id, "asks": True}, {})
        await self._wait_for(returning)
        own: Sockets = {}
        for returned in returning:
            for name, listening in (returned.result() if not returned.cancel() else {}).items():
                if own.setdefault(name, listening) is not listening:
                    listening.close()  # two siblings kept it
        return own

    async def _wait_for(self, returning: Iterable[asyncio.Future[Sockets]]) -> None:
        """Waits until all siblings have answered. When one has returned sockets, others can have the same only."""
        waiting, deadline = set(returning), self._loop.time() + RETURN_S_MAX
        while waiting and (left_s := deadline - self._loop.time()) > 0:
            done, waiting = await asyncio.wait(waiting, timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
            if any(each.result() for each in done):
                deadline = min(deadline, self._loop.time() + OTHERS_S_MAX)

    def offer(self) -> None:
        """Has siblings keep the own sockets, also those that come later. Who has the own port gives it back."""
        self._offers = True
        for link in self._links:
            self._offer_to(link)
        self._take_over()

    def follow(self, members: Collection[int]) -> None:
        """Hears whose gateways are members of the cluster. A sibling that was one, is none and lives may hang."""
        for node_id in members:
            if self._counts_no_more(node_id) and node_id not in self._dead:
                self._holders.pop(node_id, None)
                self._give_back(node_id)
        for node_id in self._members.difference(members, self._missing, self._hung):
            self._count_later(node_id)
        self._members = frozenset(members)

    def close(self) -> None:
        """Leaves the own ports to the siblings, if there are any that serve, and keeps nothing more."""
        if self._listening is not None:
            self._loop.remove_reader(self._listening.fileno())
            self._listening.close()
            self._listening = None
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._path_of(self._node_id))
        if self._serving():
            for broker_id in (self._node_id, *self._taken):
                self._ports.give_up(broker_id)
        for timer in (*self._missing.values(), *self._later.values()):
            timer.cancel()
        for link in list(self._links):
            self._links.discard(link)
            link.close()
        for sockets in self._kept.values():
            close_all(sockets)
        self._kept.clear()

    # -- links ----------------------------------------------------------------------------------------------------------------

    def _connect(self, path: str) -> SiblingLink | None:
        """None: nobody listens there, or nobody who may."""
        try:
            return self._reach(path)
        except OSError:
            return None

    def _reach(self, path: str) -> SiblingLink | None:
        """None: who listens there may not. Raises OSError."""
        connecting = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            connecting.setblocking(False)
            connecting.connect(path)
        except BaseException:
            connecting.close()
            raise
        return self._added(connecting)

    def _accept(self, listening: socket.socket) -> None:
        try:
            accepted, _ = listening.accept()
        except OSError as error:
            if error.errno in _NOT_NOW - {errno.EAGAIN}:  # it stays in the backlog, and the loop must not spin on it
                self._loop.remove_reader(listening.fileno())
                self._loop.call_later(TRY_AGAIN_S, self._watch, listening)
            return
        accepted.setblocking(False)
        # It has the network of the process that connected. A container's ports end with its network, whoever has them.
        if _network_of(accepted) != _network_of(listening):
            log.info("no sibling: it has another network", extra=fields(node=self._node_id))
            accepted.close()
            return
        self._added(accepted)

    def _watch(self, listening: socket.socket) -> None:
        if listening.fileno() >= 0:
            self._loop.add_reader(listening.fileno(), self._accept, listening)

    def _added(self, connected: socket.socket) -> SiblingLink | None:
        pid, uid, _ = _UCRED.unpack(connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))
        if uid not in (os.getuid(), 0):
            log.info("no sibling", extra=fields(pid=pid, uid=uid))
            connected.close()
            return None
        link = SiblingLink(connected, self._heard, self._ended)
        self._links.add(link)
        return link

    def _offer_to(self, link: SiblingLink) -> None:
        link.send({"node": self._node_id}, self._ports.sockets(self._node_id))
        for broker_id in self._taken:
            self._pass_on(link, broker_id)

    def _offer_again(self, link: SiblingLink) -> None:
        if link in self._links and self._offers:
            self._offer_to(link)

    def _pass_on(self, link: SiblingLink, broker_id: int) -> None:
        link.send({"node": self._node_id, "dead": broker_id}, self._kept[broker_id])

    def _living(self) -> set[int]:
        return {each.node_id for each in self._links if each.node_id is not None}

    def _serving(self) -> set[int]:
        """The siblings that may take a port over."""
        return {each.node_id for each in self._links if each.node_id is not None and each.serves} - self._hung

    def _ended(self, link: SiblingLink) -> None:
        """A sibling died, or stops, or the connection broke."""
        if link not in self._links:
            return
        self._links.discard(link)
        link.close()
        if link.node_id is None or link.node_id in self._living():
            return
        if link.has_told:
            self._look_at(link.node_id, link.serves)
        else:  # what accepted it has ended it at once
            self._loop.call_later(LOOK_S, self._look_at, link.node_id, link.serves)

    def _look_at(self, node_id: int, serves: bool) -> None:
        """Takes the port of a sibling over, unless that lives: it accepts another connection, or has no room for one. Without
        descriptors nobody can tell, which is what breaks connections most likely."""
        if self._listening is None or node_id in self._living():
            return
        try:
            again = self._reach(self._path_of(node_id))
        except OSError as error:
            if error.errno in _NOT_NOW:
                self._loop.call_later(LOOK_S, self._look_at, node_id, serves)
                return
            again = None
        if again is not None:
            again.node_id, again.serves = node_id, serves
            self._loop.call_later(OFFER_AGAIN_S, self._offer_again, again)
            return
        self._hung.discard(node_id)
        self._dead.add(node_id)
        self._take_over()

    # -- messages -------------------------------------------------------------------------------------------------------------

    def _heard(self, link: SiblingLink, message: dict[str, Any], sockets: Sockets) -> None:
        link.node_id = node_id = int(message["node"])
        if message.get("asks"):
            self._is_starting(node_id)
            if self._offers:
                self._offer_to(link)  # first: it is to know who serves which port when it opens its own
            link.send({"node": self._node_id, "returns": True}, self._kept.get(node_id, {}))
        elif message.get("returns"):
            if link.returned is not None and not link.returned.done():
                link.returned.set_result(sockets)
            else:
                close_all(sockets)  # too late
        elif (dead := message.get("dead")) is not None:
            self._keep_of_dead(int(dead), node_id, sockets)
        else:
            link.serves = True
            self._keep(node_id, sockets)
            self._is_open(node_id)

    def _is_starting(self, node_id: int) -> None:
        """A sibling that asks accepts from no port yet. So it died before, though the connection to it may not tell yet."""
        for each in self._links:
            if each.node_id == node_id:
                each.serves = False
        if node_id in self._kept:
            self._hung.discard(node_id)
            self._dead.add(node_id)
            self._take_over()

    def _is_open(self, node_id: int) -> None:
        """It has just offered its sockets, so it does not hang. It may register later, or hang again."""
        self._dead.discard(node_id)
        self._holders.pop(node_id, None)
        if self._counts_no_more(node_id) and node_id not in self._members:
            self._count_later(node_id)
        self._give_back(node_id)

    def _keep(self, node_id: int, sockets: Sockets) -> None:
        close_all(self._kept.pop(node_id, {}))
        self._kept[node_id] = sockets

    def _keep_of_dead(self, node_id: int, holder: int, sockets: Sockets) -> None:
        if node_id == self._node_id or node_id in self._taken:
            close_all(sockets)  # its port is served here
        elif node_id in self._living():
            close_all(sockets)  # it lives again, or hangs
            if node_id in self._missing or node_id in self._hung:
                self._holders[node_id] = holder
        else:
            self._keep(node_id, sockets)
            self._dead.add(node_id)
            self._holders[node_id] = holder

    # -- ports ----------------------------------------------------------------------------------------------------------------

    def _count_later(self, node_id: int) -> None:
        self._missing[node_id] = self._loop.call_later(HUNG_S, self._count_as_hung, node_id)

    def _counts_no_more(self, node_id: int) -> bool:
        """Whether it counted as hung, or was about to."""
        if (timer := self._missing.pop(node_id, None)) is not None:
            timer.cancel()
        was_hung = node_id in self._hung
        self._hung.discard(node_id)
        return was_hung or timer is not None

    def _count_as_hung(self, node_id: int) -> None:
        if self._node_id not in self._members:  # it may be the own lease that was lost, or all
            self._count_later(node_id)
            return
        del self._missing[node_id]
        if node_id in self._living():
            self._hung.add(node_id)
            self._take_over()

    def _unserved(self) -> set[int]:
        """Those that died or hang whose ports this node can take over, and nobody is known to have."""
        serving, gone = self._serving(), self._dead | self._hung
        return {each for each in self._kept.keys() - self._taken if each in gone and self._holders.get(each) not in serving}

    def _take_over(self) -> None:
        """Accepts from the ports that nobody serves: at once, or later if a sibling with a lower id may do it first."""
        if not self._offers:
            return
        is_first = self._node_id <= min(self._serving(), default=self._node_id)
        for node_id in sorted(self._unserved()):
            if is_first:
                self._take(node_id)
            else:
                self._take_later(node_id, LEFT_S_MAX)

    def _take_later(self, node_id: int, wait_s: float) -> None:
        if node_id not in self._later:
            self._later[node_id] = self._loop.call_later(wait_s, self._take_left, node_id)

    def _take_left(self, node_id: int) -> None:
        """Two that accept from one port harm nobody."""
        del self._later[node_id]
        if node_id in self._unserved():
            self._take(node_id)

    def _take(self, node_id: int) -> None:
        own: Sockets = {}
        try:
            own = copies(self._kept[node_id])
            self._ports.take(node_id, own)
        except OSError as error:  # no descriptors are left
            self._ports.give_up(node_id)
            close_all(own)
            log.info("cannot take a broker's port over yet", extra=fields(broker_id=node_id, reason=error))
            self._take_later(node_id, TRY_AGAIN_S)
            return
        self._taken.add(node_id)
        for each in self._links:
            if each.node_id != node_id:
                self._pass_on(each, node_id)
        self._on_change({self._node_id, *self._taken})
        log.info("took a broker's port over", extra=fields(broker_id=node_id, hung=node_id in self._hung))

    def _give_back(self, node_id: int) -> None:
        if node_id in self._taken:
            self._taken.discard(node_id)
            self._ports.give_up(node_id)
            self._drain(node_id, 0.0, BUSY_S_MAX)
            self._on_change({self._node_id, *self._taken})
            log.info("gave a broker's port back", extra=fields(broker_id=node_id))


def _network_of(unix: socket.socket) -> bytes:
    """The network namespace of the process that made it. Empty: the kernel does not tell."""
    try:
        return unix.getsockopt(socket.SOL_SOCKET, _SO_NETNS_COOKIE, 8)
    except OSError:
        return b""
