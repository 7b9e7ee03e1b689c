"""Requests about one group or transactional id: parsed up to that key once, and recognised from then on.

A shortcut keeps nothing of the image: the key's shard and its owner are looked up with each request.
"""

from typing import Final

from libs.wire.api_keys import ApiKey, is_flexible
from libs.wire.primitives import Reader
from services.gateway.core.relay_template import PREFIX_BYTES_MAX, RelayTemplate
from services.gateway.core.routing import Routes
from services.gateway.data_path.data_path import DataPath
from services.gateway.exchange.exchange import Exchange
from services.gateway.groups.relay import RelayedRequest
from services.gateway.peers.coordinators import Coordinators


class RelayShortcut:
    """The shortcut of one API and key."""

    misses_max: Final = 1
    __slots__ = ("_coordinators", "_data_path", "_key", "client_id", "generation", "match", "misses", "version")

    def __init__(self, data_path: DataPath, coordinators: Coordinators, template: RelayTemplate) -> None:
        self.version = template.version
        self.client_id = template.client_id
        self.misses = 0
        self.match = template.match
        self.generation = data_path.routes.generation
        self._key = template.key
        self._coordinators = coordinators
        self._data_path = data_path

    def renew(self, routes: Routes) -> None:
        self.generation = routes.generation

    def begin(self, exchange: Exchange, body: memoryview) -> bool:
        RelayedRequest(self._data_path, self._coordinators, exchange, self._key, bytes(body)).start()
        return True


def begin_request(data_path: DataPath, exchange: Exchange, reader: Reader) -> bool:
    """Begins a request whose first field is the group id or the transactional id, and learns its shortcut. Raises
    ProtocolError."""
    return _begin(data_path, exchange, reader, Reader(reader.view, reader.position))


def begin_request_after_transactional_id(data_path: DataPath, exchange: Exchange, reader: Reader) -> bool:
    """Begins a request whose second field is the group id, and learns its shortcut. Raises ProtocolError."""
    ahead = Reader(reader.view, reader.position)
    ahead.string(is_flexible(ApiKey(exchange.api_key), exchange.api_version))
    return _begin(data_path, exchange, reader, ahead)


def _begin(data_path: DataPath, exchange: Exchange, reader: Reader, ahead: Reader) -> bool:
    """`ahead` is at the key."""
    key = ahead.string(is_flexible(ApiKey(exchange.api_key), exchange.api_version))
    shortcuts, coordinators = exchange.connection.shortcuts, data_path.coordinators_for(exchange.api_key)
    if ahead.position <= PREFIX_BYTES_MAX and shortcuts.wants(exchange.api_key):
        body_at, key_end = reader.position, ahead.position
        template = RelayTemplate(reader.view, body_at, key_end, exchange.api_version, exchange.client_id, key)
        shortcuts.keep(exchange.api_key, RelayShortcut(data_path, coordinators, template))
    RelayedRequest(data_path, coordinators, exchange, key, bytes(reader.view[reader.position :])).start()
    return True
