"""Fetch (1), versions 4-18.

v5 log start offset · v7 sessions · v9 leader epochs · v11 rack · v12 flexible, diverging epoch, current leader · v13 topic ids ·
v15 replica state · v16 node endpoints · v17, v18 for followers only.

One client Fetch is one RPC, to the node behind the addressed broker id (`core/fetch_plan.py`); partitions that it neither leads
nor may be read from as a follower answer error 6. The node parks the request until there is enough to read, and answers file
ranges: small ones are read into the response here, large ones leave by sendfile, so records never enter Python. The RPC ends when
the client hangs up. A consumer that reads on in a backlog is served from what the last answer told (`read_on.py`), and one that
jumps from its leader's files (`searches.py`).

Differences from Kafka: no fetch sessions yet (session id 0 is always a legal answer; an incremental request answers 70); a
fetch as a replica answers 29 for each partition, since followers pull by RPC. On the bootstrap port, which is no broker, the
request goes to the leader of the first partition that has one.
"""

from libs.wire.messages.fetch import read_fetch
from libs.wire.primitives import Reader
from services.gateway import read_on, searches
from services.gateway.core.fetch_shape import FetchShape, learn
from services.gateway.data_path import DataPath
from services.gateway.exchange import Exchange
from services.gateway.pending_fetch import PendingFetch


def begin(data_path: DataPath, exchange: Exchange, reader: Reader, *, wants_shape: bool) -> FetchShape | None:
    """Raises ProtocolError. The answer may be known before this returns, or long after.

    Returns the request's shape, if that is wanted and it has one, for `begin_alike` of the requests that follow.
    """
    request = read_fetch(reader, exchange.api_version)
    reader.expect_end()
    shape = learn(reader.view, exchange.api_version, exchange.client_id, request) if wants_shape else None
    PendingFetch(data_path, exchange, request, None).start()
    return shape


def begin_alike(data_path: DataPath, exchange: Exchange, shape: FetchShape, frame: memoryview) -> bool:
    """False: the frame is not of this shape, and nothing was begun."""
    found = shape.match(frame)
    if found is None:
        return False
    exchange.api_version = shape.version
    exchange.correlation_id = found.correlation_id
    exchange.client_id = shape.client_id
    jumps = shape.read_on is not None and shape.read_on.offset != found.offset
    if not read_on.serve(data_path, exchange, shape, found.offset) and not searches.serve(
        data_path, exchange, shape, found.offset
    ):
        if jumps:
            searches.jumped(data_path, shape)
        PendingFetch(data_path, exchange, shape.at(found.offset), shape).start()
    return True
