"""Fetch (1), versions 4-18.

v5 log start offset · v7 sessions · v9 leader epochs · v11 rack · v12 flexible, diverging epoch, current leader · v13 topic ids ·
v15 replica state · v16 node endpoints · v17, v18 for followers only.

One client Fetch is one RPC, to the node behind the addressed broker id (`core/fetch_plan.py`). A partition that this node neither
leads nor may serve as a follower answers NOT_LEADER_OR_FOLLOWER. The node parks the request until there is enough to read, and
answers with file ranges. Small ranges are read into the response here. Large ones leave by sendfile, so that their records never
enter Python. The RPC is cancelled when the client disconnects. Some fetches need no RPC
(`services/gateway/shortcuts/fetch_shortcut.py`).

Differences from Kafka: there are no fetch sessions yet. Each answer has session id 0, which is always legal, and an incremental
request answers FETCH_SESSION_ID_NOT_FOUND. A fetch as a replica answers TOPIC_AUTHORIZATION_FAILED for each partition, since
followers pull by RPC. On the bootstrap port, which is no broker, the request goes to the leader of the first partition that has
one.
"""

from typing import Final

from libs.wire.api_keys import ApiKey
from libs.wire.apis import APIS
from libs.wire.messages.fetch import FetchRequest, read_fetch
from libs.wire.primitives import Reader
from services.gateway.data_path.data_path import DataPath
from services.gateway.data_path.served_api import ServedApi
from services.gateway.exchange.exchange import Exchange
from services.gateway.fetch.pending_fetch import PendingFetch
from services.gateway.shortcuts.fetch_shortcut import learn


def begin(data_path: DataPath, exchange: Exchange, reader: Reader) -> bool:
    """Begins a request, and learns its shortcut. Raises ProtocolError."""
    connection = exchange.connection
    connection.produced.fetches()
    request: FetchRequest
    if exchange.checked is not None:
        request = exchange.checked.request
    else:
        request = read_fetch(reader, exchange.api_version)
        reader.expect_end()
    if connection.shortcuts.wants(ApiKey.FETCH) and not exchange.denied:
        connection.shortcuts.keep(ApiKey.FETCH, learn(data_path, exchange, reader.view, request))
    PendingFetch(data_path, exchange, request, None).start()
    return True


SERVED_API: Final = ServedApi(APIS[ApiKey.FETCH], begin=begin)
