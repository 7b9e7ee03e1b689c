"""Nodes that operators take off the list of those that are known."""

from libs.rpc.contracts.controller import UnregisterBroker, UnregisterBrokerReply
from services.controller import writes
from services.controller.administration import Administration
from services.controller.core.registrations import unregister
from services.controller.fencing import Conflict, Unsettled
from services.controller.term import ATTEMPTS, Term


async def unregister_node(administration: Administration, term: Term, request: UnregisterBroker) -> UnregisterBrokerReply:
    """Raises Refused and Unsettled. The record goes last: what was interrupted before that is asked for again."""
    for _ in range(ATTEMPTS):
        await term.carry_out(lambda: unregister(term.image, request.node_id))
        try:
            return UnregisterBrokerReply(await term.commit(writes.unregistering(term.image, request.node_id)))
        except Conflict as conflict:
            await term.catch_up(conflict.revision)
    raise Unsettled("the node registered or changed each time")
