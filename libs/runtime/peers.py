"""The exchange of cluster images between peers: a process that starts while the metadata store is away borrows one.

It asks the members that it saw last (`address_book.py`), and the seeds of its configuration. Of all answers within a second, it
takes the newest image, and none of another cluster.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from libs.cluster.codec import RecordError
from libs.cluster.image import ClusterImage
from libs.cluster.image_follower import ImageFollower
from libs.cluster.member_addresses import address_of
from libs.cluster.peer_image import image_of, lines_of
from libs.rpc.client.rpc_client import Hello, RpcClient
from libs.rpc.contracts.peers import IMAGE, IMAGE_AT, ImageAt
from libs.rpc.messages.errors import ContractError, RpcFailure
from libs.rpc.messages.schema import unpack
from libs.rpc.server.rpc_server import Accept, Call
from libs.rpc.transport.transport import Transport
from libs.runtime.address_book import AddressBook, book_of
from libs.telemetry.logs import fields
from libs.wire.errors import ErrorCode

log = logging.getLogger("metadata")

PEER_TIMEOUT_S = 1.0
"""A peer that has not answered by then is passed over: it may be stopped."""
IMAGE_TIMEOUT_S = 10.0
LINES_PER_TURN = 20
"""So many take about a millisecond."""


class ImageLending:
    """The RPC methods by which peers get this process's image, which may itself be a borrowed one."""

    def __init__(self, image: Callable[[], ClusterImage]) -> None:
        self._image = image
        self._making = asyncio.Lock()
        self._packed_image: ClusterImage | None = None
        self._packed = b""

    @property
    def methods(self) -> dict[str, Accept]:
        return {IMAGE_AT: self._describe, IMAGE: self._lend}

    def _describe(self, call: Call) -> None:
        image = self._image()
        call.reply(ImageAt(image.revision, image.cluster_id))

    def _lend(self, call: Call) -> Coroutine[Any, Any, None] | None:
        if self._image().revision:
            return self._give(call)
        call.fail(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "there is no image here yet")
        return None

    async def _give(self, call: Call) -> None:
        async with self._making:  # several peers may ask together: the image is packed once
            image = self._image()
            if self._packed_image is not image:
                self._packed = await _in_turns(image)
                self._packed_image = image
            call.reply(ImageAt(image.revision, image.cluster_id), (self._packed,))


async def _in_turns(image: ClusterImage) -> bytes:
    lines: list[bytes] = []
    for line in lines_of(image):
        lines.append(line)
        if len(lines) % LINES_PER_TURN == 0:
            await asyncio.sleep(0)
    return b"".join(lines)


class Peers:
    """The peers that this process may ask for an image. `newest` asks them. `seeds` are "host:port", or "unix:/path"."""

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
        self._last_warning: tuple[str, int] | None = None

    def note_members_of(self, follower: ImageFollower) -> None:
        """Writes the members of each verified image to the address book from now on."""

        def note(_: ClusterImage, image: ClusterImage) -> None:
            if follower.verified:
                self._book.write(book_of(image, self._role, self._node_id))

        follower.subscribe(note)
        note(follower.image, follower.image)

    def addresses(self) -> list[str]:
        """The addresses to ask, each once."""
        recorded = [address_of(peer, self._host_id) for peer in self._book.book.addresses]
        return list(dict.fromkeys(address for address in [*recorded, *self._seeds] if address))

    async def newest(self) -> ClusterImage | None:
        # The hello has no node id, since a server ends the older of two connections of one node.
        asker = Hello(self._role, -1, self._incarnation, self._version, 1, self._book.book.cluster_id)
        clients = [RpcClient(address, asker, self._transport) for address in self.addresses()]
        try:
            return await self._newest_of(clients)
        finally:
            for client in clients:
                await client.close()

    async def _newest_of(self, clients: list[RpcClient]) -> ClusterImage | None:
        answers = await asyncio.gather(*(_ask(client) for client in clients))
        replies = [(reply, client) for reply, client in zip(answers, clients, strict=True) if reply is not None]
        own_cluster = self._book.book.cluster_id
        usable = [
            (reply, client)
            for reply, client in replies
            if reply.revision > 0 and reply.cluster_id == (own_cluster or reply.cluster_id)
        ]
        clusters = sorted({reply.cluster_id for reply, _ in usable})
        if len(clusters) > 1:  # and it is unknown which one is ours
            self._warn_once(
                "peers belong to several clusters: none of them is followed", len(replies), clusters=",".join(clusters)
            )
            return None
        for reply, client in sorted(usable, key=lambda pair: -pair[0].revision):
            image = await _fetch(client, reply)
            if image is not None:
                return image
        addresses = ",".join(client.address for client in clients)
        self._warn_once("waits for the metadata store, or for a peer that has an image", len(replies), asked=addresses)
        return None

    def _warn_once(self, message: str, answered: int, **more: object) -> None:
        """Logs a warning, unless it is the same as the last one."""
        if self._last_warning != (message, answered):
            self._last_warning = (message, answered)
            log.warning(message, extra=fields(answered=answered, **more))


async def _ask(client: RpcClient) -> ImageAt | None:
    try:
        response = await client.call(IMAGE_AT, [], timeout_s=PEER_TIMEOUT_S)
        return unpack(ImageAt, response.body)
    except (RpcFailure, ContractError):
        return None


async def _fetch(client: RpcClient, expected: ImageAt) -> ClusterImage | None:
    try:
        response = await client.call(IMAGE, [], timeout_s=IMAGE_TIMEOUT_S)
        fetched = unpack(ImageAt, response.body)
        image = image_of(bytes(response.payload), fetched.revision)
        if image.cluster_id != expected.cluster_id or image.revision < expected.revision:
            raise RecordError(f"revision {image.revision} of cluster {image.cluster_id}, not what the peer announced")
        return image
    except (RpcFailure, ContractError, RecordError) as error:
        log.warning("a peer's image cannot be used", extra=fields(peer=client.address, reason=error))
        return None
