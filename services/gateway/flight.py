"""One Append RPC under way. It stands in the RPC client as whom to tell, where a new image finds it, at no cost to the others."""

from typing import TYPE_CHECKING

from libs.rpc.client import Response
from services.gateway.batch import Batch
from services.gateway.nodes import StorageNode

if TYPE_CHECKING:
    from services.gateway.appends import Appends


class Flight:
    """`batches` has None for what was taken back: whatever the answer says of it, it has another by then."""

    __slots__ = ("_appends", "batches", "landed", "node")

    def __init__(self, appends: "Appends", node: StorageNode, batches: list[Batch | None]) -> None:
        self._appends = appends
        self.node = node
        self.batches = batches
        self.landed = False

    def __call__(self, outcome: Response | Exception) -> None:
        self.landed = True
        self._appends.landed(self, outcome)
