"""Listings are taken apart and joined as if they were read and written whole."""

import pytest

from libs.wire.api_keys import ApiKey
from libs.wire.listings import Listing, join, take_apart
from libs.wire.messages import list_groups, list_transactions
from libs.wire.messages.list_groups import ListedGroup, ListGroupsResponse
from libs.wire.messages.list_transactions import ListTransactionsResponse, TransactionState
from libs.wire.primitives import ProtocolError, Reader, Writer

COUNTS = [(), (0,), (1, 0, 2), (200, 100)]


def written(write: object, response: object, version: int) -> bytearray:
    writer = Writer()
    write(writer, response, version)  # type: ignore[operator]
    return writer.buffer


@pytest.mark.parametrize("version", range(6))
@pytest.mark.parametrize("counts", COUNTS)
def test_groups(version: int, counts: tuple[int, ...]) -> None:
    def answer(first: int, count: int) -> ListGroupsResponse:
        state, kind = "Stable" if version >= 4 else "", "classic" if version >= 5 else ""
        return ListGroupsResponse(0, 0, [ListedGroup(f"g{first + each}", "consumer", state, kind) for each in range(count)])

    parts = [
        take_apart(ApiKey.LIST_GROUPS, written(list_groups.write_response, answer(0, each), version), version) for each in counts
    ]
    assert [part.length for part in parts] == list(counts)
    whole = [group for each in counts for group in answer(0, each).groups]
    body = join(ApiKey.LIST_GROUPS, parts, version)
    assert body == written(list_groups.write_response, ListGroupsResponse(groups=whole), version)


@pytest.mark.parametrize("version", range(3))
@pytest.mark.parametrize("counts", COUNTS)
def test_transactions(version: int, counts: tuple[int, ...]) -> None:
    def states(count: int) -> list[TransactionState]:
        return [TransactionState(f"t{each}", each, "Ongoing") for each in range(count)]

    bodies = [
        written(list_transactions.write_response, ListTransactionsResponse(0, 0, ["odd"], states(each)), version)
        for each in counts
    ]
    parts = [take_apart(ApiKey.LIST_TRANSACTIONS, body, version) for body in bodies]
    body = join(ApiKey.LIST_TRANSACTIONS, parts, version, ["what"])
    found = list_transactions.read_response(Reader(memoryview(body)), version)
    assert found == ListTransactionsResponse(0, 0, ["what"], [state for each in counts for state in states(each)])


def test_an_error_is_found() -> None:
    body = written(list_groups.write_response, ListGroupsResponse(error_code=14), 5)
    assert take_apart(ApiKey.LIST_GROUPS, body, 5) == Listing(14)


@pytest.mark.parametrize("body", [b"", b"\0" * 6, b"\0" * 6 + b"\x05", b"\0" * 6 + b"\x02\x02g\1"], ids=repr)
def test_what_is_no_listing_is_refused(body: bytes) -> None:
    with pytest.raises(ProtocolError):
        take_apart(ApiKey.LIST_GROUPS, body, 5)
