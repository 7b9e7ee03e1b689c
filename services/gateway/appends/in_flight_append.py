"""The RPC client's completion callback for one Append. Leader changes find in-flight appends through it."""

from collections.abc import Callable

from libs.rpc.client.rpc_client import Response
from services.gateway.appends.batch import Batch
from services.gateway.peers.storage_nodes import StorageNode

OnOutcome = Callable[["InFlightAppend", Response | Exception], None]


class InFlightAppend:
    """One Append RPC that has no answer yet.

    A batch that was taken back leaves None in `batches`. Another RPC carries it by then, and this answer no longer counts for it.
    """

    __slots__ = ("_on_outcome", "batches", "completed", "node")

    def __init__(self, node: StorageNode, batches: list[Batch | None], on_outcome: OnOutcome) -> None:
        self.node = node
        self.batches = batches
        self.completed = False
        self._on_outcome = on_outcome

    def __call__(self, outcome: Response | Exception) -> None:
        self.completed = True
        self._on_outcome(self, outcome)
