"""Ids of traces and spans: random, or derived from the RPC request that a gateway sent.

A slow or failed request is traced although nobody decided that in advance. Its gateway and the process that it asked derive the
same ids from what both know of the RPC request, so no further word passes between them.
"""

import struct
from hashlib import blake2b
from random import Random
from typing import NamedTuple

from libs.telemetry.tracing.span import SpanContext

_REQUEST = struct.Struct(">qi")
_TRACE_AND_SPAN = struct.Struct(">QQQ")

_ELECTION = struct.Struct(">ii")


class RpcRequest(NamedTuple):
    """An RPC request, as both of its ends know it. Request ids count up for each pair of processes."""

    client: str
    """A `process_name`."""
    server: str
    """The same: a server that starts anew may get the same ids from a new RPC client."""
    request_id: int
    part: int = 0
    """Tells apart the clients' requests that share the RPC request."""


class SentRequest(NamedTuple):
    """The same, as its client knows it, whose name is its own."""

    server: str
    request_id: int
    part: int = 0


def random_context(random: Random, *, sampled: bool = True) -> SpanContext:
    """The root of a new trace."""
    return SpanContext(random.getrandbits(128) or 1, random.getrandbits(64) or 1, sampled)


def random_span_id(random: Random) -> int:
    return random.getrandbits(64) or 1


def process_name(role: str, node_id: int, incarnation: int) -> str:
    """A process. Each of its starts has another name."""
    return f"{role}-{node_id}-{incarnation}"


def derived_context(request: RpcRequest) -> SpanContext:
    """The context of the span that made the request. Its trace id counts where nobody decided on a trace in advance."""
    named = f"{request.client} {request.server}".encode() + _REQUEST.pack(request.request_id, request.part)
    return _context_of(named, sampled=False)


def election_context(topic_id: bytes, partition: int, leader_epoch: int) -> SpanContext:
    """The root of an election's trace. The controller and the new leader know it, since an epoch has one election."""
    return _context_of(b"election" + topic_id + _ELECTION.pack(partition, leader_epoch), sampled=True)


def _context_of(named: bytes, *, sampled: bool) -> SpanContext:
    high, low, span_id = _TRACE_AND_SPAN.unpack(blake2b(named, digest_size=24).digest())
    return SpanContext(high << 64 | low or 1, span_id or 1, sampled)
