"""UnregisterBroker: a dead node leaves the list of known nodes."""

from libs.rpc.contracts.controller import UnregisterBroker, UnregisterBrokerReply
from services.controller.administration.administration import Administration
from services.controller.core.administration.node_registrations import unregister
from services.controller.term import writes
from services.controller.term.fenced_writer import Conflict, OutcomeUnknown
from services.controller.term.term import ATTEMPTS, Term


async def unregister_node(administration: Administration, term: Term, request: UnregisterBroker) -> UnregisterBrokerReply:
    """Raises Refused and OutcomeUnknown. The node's record is deleted last, so an interrupted request can be sent again."""
    for _ in range(ATTEMPTS):
        await term.carry_out(lambda: unregister(term.image, request.node_id))
        try:
            return UnregisterBrokerReply(await term.commit(writes.unregistering(term.image, request.node_id)))
        except Conflict as conflict:
            await term.catch_up(conflict.revision)
    raise OutcomeUnknown("the node registered or changed each time")
