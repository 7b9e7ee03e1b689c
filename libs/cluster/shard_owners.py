"""The owner of a shard, as a partition's state names it. A process that restarts is a new owner, since it has lost its state."""

from typing import Final, NamedTuple

from libs.cluster.topic_names import GROUP_TOPIC, TRANSACTION_TOPIC
from libs.roles import GROUP_COORDINATOR, TRANSACTION_COORDINATOR

OWNED_BY: Final = {GROUP_TOPIC: GROUP_COORDINATOR, TRANSACTION_TOPIC: TRANSACTION_COORDINATOR}
"""The internal topics whose shards are assigned, and the role of their owners."""


class Owner(NamedTuple):
    node_id: int
    incarnation: int

    def __str__(self) -> str:
        return f"{self.node_id}@{self.incarnation}"

    @classmethod
    def named(cls, text: str) -> "Owner | None":
        """None: nobody."""
        node_id, _, incarnation = text.partition("@")
        return cls(int(node_id), int(incarnation)) if node_id.isdecimal() and incarnation.isdecimal() else None
