"""How a partition's state names the owner of a shard. A process that restarts is another owner: it knows nothing of its past."""

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
