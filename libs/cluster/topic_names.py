"""Legal topic names, and the names of internal topics."""

import re
from typing import Final

MAX_NAME_LENGTH: Final = 249
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+", re.ASCII)

GROUP_TOPIC: Final = "__consumer_offsets"
"""The topic in which group coordinators keep groups and their offsets."""

TRANSACTION_TOPIC: Final = "__transaction_state"
"""The topic in which transaction coordinators keep transactional ids and their transactions."""

INTERNAL_TOPICS: Final = frozenset({GROUP_TOPIC, TRANSACTION_TOPIC, "__share_group_state"})
"""The topics of the coordinators. They are marked as internal whoever creates them, as in Kafka."""


def is_legal(name: str) -> bool:
    return name not in (".", "..") and len(name) <= MAX_NAME_LENGTH and _LEGAL.fullmatch(name) is not None
