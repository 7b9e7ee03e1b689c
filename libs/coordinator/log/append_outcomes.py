"""What a leader's answer to a `storage.append` says of each batch. Pure.

Plain successes are the hot path: they are read by position, in the field order of `contracts/storage.py`. Tests check that both
ways agree.
"""

from typing import Any, Final

from libs.coordinator.log.internal_log import Outcome, Refused, Stored, Unknown
from libs.rpc.client.rpc_client import Response
from libs.rpc.contracts.storage import Appended, AppendReply
from libs.rpc.messages.errors import RpcFailure
from libs.rpc.messages.schema import unpack
from libs.wire.errors import ErrorCode

IN_LOG: Final = (int(ErrorCode.REQUEST_TIMED_OUT), int(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND))
"""Errors after which the batch may be in the log, and may yet be committed."""
LEADER_MOVED: Final = Refused(int(ErrorCode.NOT_LEADER_OR_FOLLOWER))


def outcomes(result: Response | Exception, count: int) -> list[Outcome]:
    """The outcomes of `count` batches, in the order of the request."""
    if isinstance(result, RpcFailure):
        return [failed(result)] * count
    if isinstance(result, Exception):
        return [Unknown(str(result))] * count
    stored = _all_stored(result.body, count)
    return stored if stored is not None else _outcomes(result.body, count)


def failed(error: RpcFailure) -> Outcome:
    return Unknown(str(error)) if error.sent else LEADER_MOVED


def _all_stored(reply: list[Any], count: int) -> list[Outcome] | None:
    """None for an answer that has to be read in full: it is no plain success of all batches."""
    answers = reply[0] if reply else None
    if type(answers) is not list or len(answers) != count:
        return None
    stored: list[Outcome] = []
    for answer in answers:
        if type(answer) is not list or len(answer) < 2:
            return None
        error, base_offset = answer[:2]
        if type(error) is not int or error or type(base_offset) is not int:
            return None
        stored.append(Stored(base_offset))
    return stored


def _outcomes(reply: list[Any], count: int) -> list[Outcome]:
    try:
        answers = unpack(AppendReply, reply).partitions
    except Exception as error:  # whatever it is, the callers wait for an outcome
        return [Unknown(str(error))] * count
    if len(answers) != count:
        return [Unknown(f"{len(answers)} answers for {count} batches")] * count
    return [_outcome(answer) for answer in answers]


def _outcome(answer: Appended) -> Outcome:
    if not answer.error:
        return Stored(answer.base_offset)
    if answer.in_log or answer.error in IN_LOG:
        return Unknown(f"stored, but perhaps not committed: error {answer.error}")
    return Refused(answer.error)
