"""Answers of ListGroups and ListTransactions, taken apart and joined without reading their entries.

A cluster may have more groups and transactional ids than one turn of an event loop may look at. Coordinators write their answers
in parts, and gateways join those of all shards. Copying bytes takes a thousandth of the time of reading them.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from libs.wire.api_keys import ApiKey
from libs.wire.primitives import ProtocolError, Reader, Writer

_FIRST_FLEXIBLE: Final = {ApiKey.LIST_GROUPS: 3, ApiKey.LIST_TRANSACTIONS: 0}
_FIRST_WITH_THROTTLE: Final = {ApiKey.LIST_GROUPS: 1, ApiKey.LIST_TRANSACTIONS: 0}


class Listing(NamedTuple):
    """A part of an answer, or a whole one."""

    error_code: int
    length: int = 0
    entries: bytes | bytearray | memoryview = b""
    """`length` entries, as the version of the request has them."""
    unknown_states: Sequence[str] = ()
    """Of ListTransactions."""


def take_apart(key: ApiKey, body: bytes | bytearray | memoryview, version: int) -> Listing:
    """Takes a response without its header apart. Raises ProtocolError."""
    reader = Reader(memoryview(body))
    reader.elements_left = len(body)
    flexible = version >= _FIRST_FLEXIBLE[key]
    if version >= _FIRST_WITH_THROTTLE[key]:
        reader.int32()
    error_code = reader.int16()
    unknown_states = reader.array(flexible, Reader.string, flexible) if key is ApiKey.LIST_TRANSACTIONS else ()
    count = reader.array_length(flexible)
    end = len(body) - flexible
    if end < reader.position or (flexible and body[end]):
        raise ProtocolError("a listing with tagged fields, or cut short")
    return Listing(error_code, count, memoryview(body)[reader.position : end], unknown_states)


def entries_of(key: ApiKey, listing: Listing, version: int) -> Iterator[tuple[str, memoryview]]:
    """The group or transactional id of each entry, and the entry. Raises ProtocolError."""
    flexible = version >= _FIRST_FLEXIBLE[key]
    entries = memoryview(listing.entries)
    reader = Reader(entries)
    for _ in range(listing.length):
        start = reader.position
        name = reader.string(flexible)
        if key is ApiKey.LIST_TRANSACTIONS:
            reader.int64()
            reader.string(flexible)
        else:
            for _ in range(1 + (version >= 4) + (version >= 5)):
                reader.string(flexible)
        if flexible:
            reader.skip_tagged_fields()
        yield name, entries[start : reader.position]


def join(key: ApiKey, listings: Iterable[Listing], version: int, unknown_states: Sequence[str] = ()) -> bytearray:
    """The response, without its header, that has the entries of all `listings`. `unknown_states` is of ListTransactions."""
    parts = list(listings)
    flexible = version >= _FIRST_FLEXIBLE[key]
    writer = Writer()
    if version >= _FIRST_WITH_THROTTLE[key]:
        writer.int32(0)
    writer.int16(0)
    if key is ApiKey.LIST_TRANSACTIONS:
        writer.array(unknown_states, flexible, Writer.string, flexible)
    writer.array_length(sum(part.length for part in parts), flexible)
    for part in parts:
        writer.buffer += part.entries
    if flexible:
        writer.no_tagged_fields()
    return writer.buffer
