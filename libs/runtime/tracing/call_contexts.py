"""The contexts that both ends of an RPC request derive from it, where nobody decided on a trace in advance."""

from libs.rpc.server.call import Call
from libs.telemetry.tracing.ids import RpcRequest, derived_context, process_name
from libs.telemetry.tracing.span import SpanContext


def derived_from(call: Call, server: str, part: int = 0) -> SpanContext:
    """The context of the span that made the call, or of another part of it. `server`: the `process_name` of who answers it."""
    peer = call.peer
    client = process_name(peer.role, peer.node_id, peer.incarnation)
    return derived_context(RpcRequest(client, server, call.request_id, part))
