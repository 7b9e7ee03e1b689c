"""Markers of prepared transactions, where an owner gets its shard back while they are on their way."""

from libs.rpc.client import Hello
from libs.rpc.socket_transport import SocketTransport
from libs.runtime.member_clients import MemberClients
from libs.runtime.storage_nodes import StorageNodes
from services.transaction_coordinator.core.states import State
from services.transaction_coordinator.core.transaction import Producer, Transaction
from services.transaction_coordinator.markers.marker_writer import MarkerWriter
from tests.support.polling import until

PREPARED = Transaction("t", Producer(1000, 0), state=State.PREPARE_COMMIT)


async def test_kafka_16352_the_end_of_former_markers_forgets_no_later_ones() -> None:
    """A transaction whose markers were begun anew was forgotten with the former ones. It stayed prepared for ever."""
    written: list[int] = []
    hello, transport = Hello("transaction_coordinator", 1, 1, "test", 1, "test-cluster"), SocketTransport()
    writer = MarkerWriter(
        StorageNodes(lambda: hello, "this-host", transport),
        MemberClients("group_coordinator", lambda: hello, "this-host", transport),
        owns=lambda shard, owner_epoch: True,
        on_written=lambda shard, owner_epoch, prepared: written.append(owner_epoch),
    )
    writer.write(0, 1, [PREPARED])
    writer.write(0, 2, [PREPARED])
    writer.forget(0, 1, PREPARED)
    assert len(writer) == 1
    await until(lambda: bool(written))
    assert written == [2], "by the owner that there is"
    writer.forget(0, 2, PREPARED)
    assert len(writer) == 0
    await writer.close()
