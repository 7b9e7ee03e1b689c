"""The controller's RPC methods, as libs/rpc/contracts/controller.py has them.

All but producer ids run one at a time, in the order in which their frames arrived: `administer` queues them fairly.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

from libs.cluster.store import StoreUnavailable
from libs.rpc.contracts import controller as contract
from libs.rpc.schema import unpack
from libs.rpc.server import Accept, Call
from libs.wire.errors import ErrorCode
from services.controller.administration import NOT_CONTROLLER, UNSETTLED, Administration
from services.controller.core.refusal import Refused
from services.controller.fencing import Unsettled
from services.controller.isr_changes import change_isrs, withdraw_replicas
from services.controller.registrations import unregister_node
from services.controller.service import Controller, NotElected
from services.controller.term import Term
from services.controller.vigil import Vigil

R = TypeVar("R")


def methods(controller: Controller, vigil: Vigil) -> dict[str, Accept]:
    """One table: which method is answered by what."""
    return {
        contract.CREATE_TOPICS: _administrative(controller, contract.CreateTopics, Administration.create_topics),
        contract.CREATE_INTERNAL_TOPIC: _administrative(
            controller, contract.CreateInternalTopic, Administration.create_internal_topic
        ),
        contract.DELETE_TOPICS: _administrative(controller, contract.DeleteTopics, Administration.delete_topics),
        contract.CREATE_PARTITIONS: _administrative(controller, contract.CreatePartitions, Administration.create_partitions),
        contract.ALTER_CONFIGS: _administrative(controller, contract.AlterConfigs, Administration.alter_configs),
        contract.ASSIGN_DIRS: _administrative(controller, contract.AssignDirs, Administration.assign_dirs),
        contract.ALTER_PARTITIONS: _administrative(controller, contract.AlterPartitions, partial(change_isrs, vigil.doubted)),
        contract.WITHDRAW: _administrative(controller, contract.Withdraw, partial(withdraw_replicas, vigil.doubted)),
        contract.ALTER_REASSIGNMENTS: _asking_first(contract.AlterReassignments, controller.alter_reassignments),
        contract.UNREGISTER_BROKER: _administrative(controller, contract.UnregisterBroker, unregister_node),
        contract.ELECT_LEADERS: _asking_first(contract.ElectLeaders, controller.elect_leaders),
        contract.ALLOCATE_PRODUCER_IDS: _allocation(controller),
        contract.HEARTBEAT: vigil.heartbeat,
    }


def _administrative(
    controller: Controller, request_type: type[R], handle: Callable[[Administration, Term, R], Awaitable[object]]
) -> Accept:
    def accept(call: Call) -> Coroutine[Any, Any, None]:
        request = unpack(request_type, call.body)
        work = controller.administer(
            lambda administration, term: handle(administration, term, request), partial(_check_deadline, call)
        )
        return _answer(call, work)

    return accept


def _allocation(controller: Controller) -> Accept:
    def accept(call: Call) -> Coroutine[Any, Any, None]:
        unpack(contract.AllocateProducerIds, call.body)
        return _answer(call, controller.allocate_producer_ids())

    return accept


def _asking_first(request_type: type[R], handle: Callable[[R, Callable[[], None]], Awaitable[object]]) -> Accept:
    """Of what asks nodes before it waits for its turn."""

    def accept(call: Call) -> Coroutine[Any, Any, None]:
        return _answer(call, handle(unpack(request_type, call.body), partial(_check_deadline, call)))

    return accept


def _check_deadline(call: Call) -> None:
    """Nobody waits for it any more: what has not begun is better left undone."""
    if call.cancelled or asyncio.get_running_loop().time() >= call.deadline:
        raise Refused(ErrorCode.REQUEST_TIMED_OUT, "It was not begun before its deadline.")


async def _answer(call: Call, work: Awaitable[object]) -> None:
    try:
        reply = await work
    except NotElected:
        call.fail(ErrorCode.NOT_CONTROLLER, NOT_CONTROLLER)
    except Refused as refusal:
        call.fail(refusal.error, refusal.message)
    except (Unsettled, StoreUnavailable):
        call.fail(ErrorCode.REQUEST_TIMED_OUT, UNSETTLED)
    else:
        call.reply(reply)
