"""The outcome of a call by its error. `fail`: it did not happen; `info`: its outcome is unknown."""

from typing import Literal

Outcome = Literal["info", "fail"]

DID_NOT_HAPPEN = frozenset(
    {
        "CLUSTER_AUTHORIZATION_FAILED",
        "FENCED_INSTANCE_ID",
        "GROUP_AUTHORIZATION_FAILED",
        "INVALID_PRODUCER_EPOCH",
        "INVALID_RECORD",
        "INVALID_TIMESTAMP",
        "MESSAGE_TOO_LARGE",
        "OUT_OF_ORDER_SEQUENCE_NUMBER",
        "PRODUCER_FENCED",
        "RECORD_LIST_TOO_LARGE",
        "TOPIC_AUTHORIZATION_FAILED",
        "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
        "UNKNOWN_PRODUCER_ID",
        "UNKNOWN_TOPIC_OR_PARTITION",
    }
)


def outcome_of_send(error: str) -> Outcome:
    """`error`: Kafka's name, or the client's own for a timeout or a disconnect. What is not known to be a refusal is info."""
    return "fail" if error in DID_NOT_HAPPEN else "info"


def outcome_of_transaction(error: str, *, committing: bool, aborting: bool = False) -> Outcome:
    """`committing`: the commit had been asked for. `aborting`: the error came from the abort that followed it."""
    if not committing:
        return "fail"
    if aborting:
        return "fail" if error == "INVALID_TXN_STATE" else "info"
    return outcome_of_send(error)
