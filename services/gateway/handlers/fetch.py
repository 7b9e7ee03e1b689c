"""Fetch (1), versions 4-18.

v5 log start offset · v7 sessions · v9 leader epochs · v11 rack · v12 flexible, diverging epoch, current leader · v13 topic ids ·
v15 replica state · v16 node endpoints · v17, v18 for followers only.

One client Fetch is one RPC, to the node behind the addressed broker id (`core/fetch_plan.py`). A partition that this node neither
leads nor may serve as a follower answers NOT_LEADER_OR_FOLLOWER. The node parks the request until there is enough to read, and
answers with file ranges. Small ranges are read into the response here. Large ones leave by sendfile, so that their records never
enter Python. The RPC is cancelled when the client disconnects. A consumer that reads a backlog in sequence is served from the
last answer (`sequential_fetch_cache.py`). One that jumps is served from its leader's files (`offset_lookups.py`).

Differences from Kafka: there are no fetch sessions yet. Each answer has session id 0, which is always legal, and an incremental
request answers FETCH_SESSION_ID_NOT_FOUND. A fetch as a replica answers TOPIC_AUTHORIZATION_FAILED for each partition, since
followers pull by RPC. On the bootstrap port, which is no broker, the request goes to the leader of the first partition that has
one.
"""

from libs.wire.messages.fetch import read_fetch
from libs.wire.primitives import Reader
from services.gateway.core.fetch_template import FetchTemplate, learn
from services.gateway.data_path.data_path import DataPath
from services.gateway.exchange.exchange import Exchange
from services.gateway.fetch import offset_lookups, sequential_fetch_cache
from services.gateway.fetch.pending_fetch import PendingFetch


def begin(data_path: DataPath, exchange: Exchange, reader: Reader) -> bool:
    """Begins a request, and learns its template for `begin_from_template` of the requests that follow. Raises ProtocolError."""
    exchange.connection.produced.fetches()
    request = read_fetch(reader, exchange.api_version)
    reader.expect_end()
    templates = exchange.connection.templates
    wants_template = templates.wants_fetch
    template = learn(reader.view, exchange.api_version, exchange.client_id, request) if wants_template else None
    PendingFetch(data_path, exchange, request, None).start()
    if wants_template:
        templates.keep_fetch(template)
    return True


def begin_from_template(data_path: DataPath, exchange: Exchange, template: FetchTemplate, frame: memoryview) -> bool:
    """Begins a request that matches the template. False: it does not match, and nothing was begun."""
    match = template.match(frame)
    if match is None:
        return False
    exchange.api_version = template.version
    exchange.correlation_id = match.correlation_id
    exchange.client_id = template.client_id
    is_jump = template.sequential_read is not None and template.sequential_read.offset != match.offset
    if not sequential_fetch_cache.serve(data_path, exchange, template, match.offset) and not offset_lookups.serve(
        data_path, exchange, template, match.offset
    ):
        if is_jump:
            offset_lookups.note_jump(data_path, template)
        PendingFetch(data_path, exchange, template.at(match.offset), template).start()
    return True
