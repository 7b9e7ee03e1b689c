"""Lookups by timestamp in ListOffsets: the reads that may cost their leader much, since it opens what clients wrote.

Rule: a lookup that a leader received and did not answer is not sent to the next leader. The leader may have died of it, and the
next would follow. The client gets a retriable error, and asks again at its own pace.
"""

MAX_TIMESTAMP = -3

ANSWER_S_MIN, ANSWER_S_MAX = 1.0, 20.0
"""The bounds of the wait for a lookup, which may wait for its turn. Clients give up after 30 s by default."""
FIRST_WITH_TIMEOUT = 10
"""The first version of ListOffsets whose requests say how long they may take."""


FIRST_VERSION_OF = {-1: 1, -2: 1, -3: 7, -4: 8, -5: 9, -6: 11}
"""The first version in which each timestamp below 0 has a meaning."""


def has_meaning(timestamp: int, api_version: int) -> bool:
    return timestamp >= 0 or api_version >= FIRST_VERSION_OF.get(timestamp, api_version + 1)


def is_lookup(timestamp: int) -> bool:
    return timestamp >= 0 or timestamp == MAX_TIMESTAMP


def lookup_timeout_s(api_version: int, timeout_ms: int) -> float:
    """The longest wait for the answer of one leader."""
    if api_version < FIRST_WITH_TIMEOUT:
        return ANSWER_S_MAX
    return min(max(timeout_ms / 1000, ANSWER_S_MIN), ANSWER_S_MAX)
