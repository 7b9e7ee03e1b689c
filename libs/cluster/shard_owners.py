"""The owner of a shard, as a partition's state names it. A process that restarts is a new owner, since it has lost its state."""

from typing import NamedTuple


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
