"""Lends the cluster image to processes that start while the metadata store is away, and borrows it from them.

Whom to ask: the members that this process saw last (`address_book.py`), and the seeds that it was configured with. Of all that
answer within a second the newest image is taken, and none of another cluster.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from libs.cluster.codec import RecordError
from libs.cluster.follower import ImageFollower
from libs.cluster.image import ClusterImage
from libs.cluster.peer_image import image_of, lines_of
from libs.cluster.reaching import address_of
from libs.rpc.client import Hello, RpcClient
from libs.rpc.contracts.peers import IMAGE, IMAGE_AT, ImageAt
from libs.rpc.errors import ContractError, RpcFailure
from libs.rpc.schema import unpack
from libs.rpc.server import Accept, Call
from libs.rpc.transport import Transport
from libs.runtime.address_book import AddressBook, book_of
from libs.telemetry.logs import fields
from libs.wire.errors import ErrorCode

log = logging.getLogger(__name__)

ANSWER_S = 1.0
"""Who has not answered by then is passed over: it may be stopped."""
IMAGE_S = 10.0
LINES_PER_TURN = 20
"""About a millisecond."""


class ImageLending:
    """Answers for the image that this process goes by, be it borrowed itself."""

    def __init__(self, image: Callable[[], ClusterImage]) -> None:
        self._image = image
        self._making = asyncio.Lock()
        self._made_of: ClusterImage | None = None
        self._made = b""

    @property
    def methods(self) -> dict[str, Accept]:
        return {IMAGE_AT: self._tell, IMAGE: self._lend}

    def _tell(self, call: Call) -> None:
        image = self._image()
        call.reply(ImageAt(image.revision, image.cluster_id))

    def _lend(self, call: Call) -> Coroutine[Any, Any, None] | None:
        if self._image().revision:
            return self._give(call)
        call.fail(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "there is no image here yet")
        return None

    async def _give(self, call: Call) -> None:
        async with self._making:  # many may ask together: it is made once
            image = self._image()
            if self._made_of is not image:
                self._made = await _in_turns(image)
                self._made_of = image
            call.reply(ImageAt(image.revision, image.cluster_id), (self._made,))


async def _in_turns(image: ClusterImage) -> bytes:
    lines: list[bytes] = []
    for line in lines_of(image):
        lines.append(line)
        if len(lines) % LINES_PER_TURN == 0:
            await asyncio.sleep(0)
    return b"".join(lines)


class Peers:
    """`newest` borrows. `seeds` are "host:port", or "unix:/path"."""

    def __init__(
        self,
        book: AddressBook,
        seeds: Sequence[str],
        *,
        role: str,
        node_id: int,
        incarnation: int,
        version: str,
        host_id: str,
        transport: Transport,
    ) -> None:
        self._book = book
        self._seeds = [seed if seed.startswith(("unix:", "tcp:")) else f"tcp:{seed}" for seed in seeds]
        self._role, self._node_id, self._incarnation, self._version = role, node_id, incarnation, version
        self._host_id = host_id
        self._transport = transport
        self._told: tuple[str, int] | None = None

    def note_members_of(self, follower: ImageFollower) -> None:
        """From now on: those that the store names."""

        def note(_: ClusterImage, image: ClusterImage) -> None:
            if follower.verified:
                self._book.write(book_of(image, self._role, self._node_id))

        follower.subscribe(note)
        note(follower.image, follower.image)

    def addresses(self) -> list[str]:
        """Each once."""
        seen = [address_of(peer, self._host_id) for peer in self._book.book.addresses]
        return list(dict.fromkeys(address for address in [*seen, *self._seeds] if address))

    async def newest(self) -> ClusterImage | None:
        # Nobody in particular: a server ends the older of two connections of one node.
        asker = Hello(self._role, -1, self._incarnation, self._version, 1, self._book.book.cluster_id)
        clients = [RpcClient(address, asker, self._transport) for address in self.addresses()]
        try:
            return await self._newest_of(clients)
        finally:
            for client in clients:
                await client.close()

    async def _newest_of(self, clients: list[RpcClient]) -> ClusterImage | None:
        answers = await asyncio.gather(*(_ask(client) for client in clients))
        heard = [(said, client) for said, client in zip(answers, clients, strict=True) if said is not None]
        ours = self._book.book.cluster_id
        usable = [(said, client) for said, client in heard if said.revision > 0 and said.cluster_id == (ours or said.cluster_id)]
        clusters = sorted({said.cluster_id for said, _ in usable})
        if len(clusters) > 1:  # and we do not know which is ours
            self._tell("peers belong to several clusters: none of them is followed", len(heard), clusters=",".join(clusters))
            return None
        for said, client in sorted(usable, key=lambda each: -each[0].revision):
            image = await _fetch(client, said)
            if image is not None:
                return image
        asked = ",".join(client.address for client in clients)
        self._tell("waits for the metadata store, or for a peer that has an image", len(heard), asked=asked)
        return None

    def _tell(self, what: str, answered: int, **more: object) -> None:
        """Once, until it is different."""
        if self._told != (what, answered):
            self._told = (what, answered)
            log.warning(what, extra=fields(answered=answered, **more))


async def _ask(client: RpcClient) -> ImageAt | None:
    try:
        response = await client.call(IMAGE_AT, [], timeout_s=ANSWER_S)
        return unpack(ImageAt, response.body)
    except (RpcFailure, ContractError):
        return None


async def _fetch(client: RpcClient, said: ImageAt) -> ClusterImage | None:
    try:
        response = await client.call(IMAGE, [], timeout_s=IMAGE_S)
        now = unpack(ImageAt, response.body)
        image = image_of(bytes(response.payload), now.revision)
        if image.cluster_id != said.cluster_id or image.revision < said.revision:
            raise RecordError(f"revision {image.revision} of cluster {image.cluster_id}, not what was told")
        return image
    except (RpcFailure, ContractError, RecordError) as error:
        log.warning("a peer's image cannot be used", extra=fields(peer=client.address, reason=error))
        return None
