"""ListTransactions and DescribeTransactions (KIP-664): what operators see of a shard's transactional ids."""

from collections.abc import Mapping

import re2

from libs.wire.errors import ErrorCode
from services.transaction_coordinator.core.decisions import Decided
from services.transaction_coordinator.core.requests import (
    DescribeTransactions,
    DescriptionReply,
    ListingReply,
    ListTransactions,
)
from services.transaction_coordinator.core.transaction import Transaction

_QUIET = re2.Options()
_QUIET.log_errors = False


def decide_listing(transactions: Mapping[str, Transaction], request: ListTransactions, now_ms: int) -> Decided:
    """A state that does not exist filters like any other, and the gateway names it in the answer."""
    try:
        pattern = re2.compile(request.pattern, _QUIET) if request.pattern else None
    except re2.error:
        return Decided(ListingReply((), ErrorCode.INVALID_REGULAR_EXPRESSION))
    ids = request.ids
    looked_at = transactions.values() if ids is None else [transactions[each] for each in ids if each in transactions]
    listed = tuple(each for each in looked_at if _is_wanted(each, request, now_ms))
    if pattern is not None:
        listed = tuple(each for each in listed if pattern.fullmatch(each.transactional_id) is not None)
    return Decided(ListingReply(listed))


def decide_description(transactions: Mapping[str, Transaction], request: DescribeTransactions) -> Decided:
    return Decided(DescriptionReply(tuple(_described(transactions, name) for name in request.transactional_ids)))


def _is_wanted(transaction: Transaction, request: ListTransactions, now_ms: int) -> bool:
    if request.producer_ids and transaction.producer.producer_id not in request.producer_ids:
        return False
    if request.states and transaction.state.value not in request.states:
        return False
    # One without a transaction began at -1, and so counts as long, as in Kafka.
    return request.longer_than_ms < 0 or now_ms - transaction.started_ms > request.longer_than_ms


def _described(transactions: Mapping[str, Transaction], name: str) -> tuple[ErrorCode, Transaction | None]:
    if not name:
        return ErrorCode.INVALID_REQUEST, None
    found = transactions.get(name)
    return (ErrorCode.NONE, found) if found is not None else (ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, None)
