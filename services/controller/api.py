"""The controller's RPC methods, as libs/rpc/contracts/controller.py defines them.

All that write, but producer ids, run one at a time, in the order of their frames' arrival. `administer` queues them.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, Final, TypeVar

from libs.cluster.store import StoreUnavailable
from libs.cluster.transactions import TransactionTooLarge
from libs.rpc.contracts import controller as contract
from libs.rpc.contracts.ownership import SHARD_OWNER, NamedOwner, ShardOwner
from libs.rpc.messages.schema import unpack
from libs.rpc.server.rpc_server import Accept, Call
from libs.wire.errors import ErrorCode
from services.controller.administration.acls import create_acls, delete_acls
from services.controller.administration.administration import NOT_CONTROLLER, Administration, unconfirmed
from services.controller.administration.audit_log import log_changes
from services.controller.administration.features import change_features
from services.controller.administration.isr_changes import change_isrs, withdraw_replicas
from services.controller.administration.node_registrations import unregister_node
from services.controller.administration.scram_credentials import change_scram_credentials, describe_scram_credentials
from services.controller.controller import Controller, NotElected
from services.controller.core.model.refusal import Refused
from services.controller.failure_detection.failure_detector import FailureDetector
from services.controller.term.fenced_writer import OutcomeUnknown
from services.controller.term.term import Term

R = TypeVar("R")
_OF_NODES: Final = (contract.AssignDirs, contract.AlterPartitions, contract.Withdraw)
"""The requests that name the storage node which sends them."""


def methods(controller: Controller, failure_detector: FailureDetector) -> dict[str, Accept]:
    """The table of RPC methods and their handlers."""
    return {
        contract.CREATE_TOPICS: _administrative(controller, contract.CreateTopics, Administration.create_topics),
        contract.CREATE_INTERNAL_TOPIC: _administrative(
            controller, contract.CreateInternalTopic, Administration.create_internal_topic
        ),
        contract.DELETE_TOPICS: _administrative(controller, contract.DeleteTopics, Administration.delete_topics),
        contract.CREATE_PARTITIONS: _administrative(controller, contract.CreatePartitions, Administration.create_partitions),
        contract.ALTER_CONFIGS: _administrative(controller, contract.AlterConfigs, Administration.alter_configs),
        contract.ALTER_CLIENT_QUOTAS: _administrative(controller, contract.AlterClientQuotas, Administration.alter_client_quotas),
        contract.ALTER_SCRAM_CREDENTIALS: _administrative(controller, contract.AlterScramCredentials, change_scram_credentials),
        contract.DESCRIBE_SCRAM_CREDENTIALS: _administrative(
            controller, contract.DescribeScramCredentials, describe_scram_credentials
        ),
        contract.CREATE_ACLS: _administrative(controller, contract.CreateAcls, create_acls),
        contract.DELETE_ACLS: _administrative(controller, contract.DeleteAcls, delete_acls),
        contract.ASSIGN_DIRS: _administrative(controller, contract.AssignDirs, Administration.assign_dirs),
        contract.ALTER_PARTITIONS: _administrative(
            controller, contract.AlterPartitions, partial(change_isrs, failure_detector.suspected)
        ),
        contract.WITHDRAW: _administrative(controller, contract.Withdraw, partial(withdraw_replicas, failure_detector.suspected)),
        contract.ALTER_REASSIGNMENTS: _with_survey(contract.AlterReassignments, controller.alter_reassignments),
        contract.UNREGISTER_BROKER: _administrative(controller, contract.UnregisterBroker, unregister_node),
        contract.UPDATE_FEATURES: _administrative(controller, contract.UpdateFeatures, change_features),
        contract.ELECT_LEADERS: _with_survey(contract.ElectLeaders, controller.elect_leaders),
        contract.ALLOCATE_PRODUCER_IDS: _allocation(controller),
        contract.HEARTBEAT: failure_detector.heartbeat,
        SHARD_OWNER: _owner_of_shard(controller),
    }


def _administrative(
    controller: Controller, request_type: type[R], handle: Callable[[Administration, Term, R], Awaitable[object]]
) -> Accept:
    def accept(call: Call) -> Coroutine[Any, Any, None]:
        request = unpack(request_type, call.body)
        if isinstance(request, _OF_NODES):
            call.peer.require_sender(request.node_id, request.incarnation)
        work = controller.administer(
            lambda administration, term: handle(administration, term, request), partial(_check_deadline, call)
        )
        return _answer(call, _logged(request, work))

    return accept


def _allocation(controller: Controller) -> Accept:
    def accept(call: Call) -> Coroutine[Any, Any, None]:
        unpack(contract.AllocateProducerIds, call.body)
        return _answer(call, controller.allocate_producer_ids())

    return accept


def _owner_of_shard(controller: Controller) -> Accept:
    def accept(call: Call) -> None:
        asked = unpack(ShardOwner, call.body)
        state = controller.image.partition(asked.topic_id, asked.partition)
        call.reply(NamedOwner(state.owner, state.owner_epoch) if state is not None else NamedOwner("", -1))

    return accept


def _with_survey(request_type: type[R], handle: Callable[[R, Callable[[], None]], Awaitable[object]]) -> Accept:
    """The handler of a request that surveys nodes before it waits for its turn."""

    def accept(call: Call) -> Coroutine[Any, Any, None]:
        request = unpack(request_type, call.body)
        return _answer(call, _logged(request, handle(request, partial(_check_deadline, call))))

    return accept


async def _logged(request: object, work: Awaitable[object]) -> object:
    reply = await work
    log_changes(request, reply)
    return reply


def _check_deadline(call: Call) -> None:
    """Refuses a request whose caller no longer waits. It has not begun, so nothing has to be undone."""
    if call.cancelled or asyncio.get_running_loop().time() >= call.deadline:
        raise Refused(ErrorCode.REQUEST_TIMED_OUT, "The request did not begin before its deadline.")


async def _answer(call: Call, work: Awaitable[object]) -> None:
    try:
        reply = await work
    except NotElected:
        call.fail(ErrorCode.NOT_CONTROLLER, NOT_CONTROLLER)
    except Refused as refusal:
        call.fail(refusal.error, refusal.message)
    except TransactionTooLarge as error:
        call.fail(ErrorCode.INVALID_REQUEST, f"It is more than the metadata store takes at once: {error}")
    except (OutcomeUnknown, StoreUnavailable) as error:
        call.fail(ErrorCode.REQUEST_TIMED_OUT, unconfirmed(error))
    else:
        call.reply(reply)
