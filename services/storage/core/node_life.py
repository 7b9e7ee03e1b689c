"""The life of a storage node, as a transition table.

A node first waits for the metadata store. Without its own image it could take replicas for strays, so nothing is opened before.
Then it opens its log directories: it locks them, reads their ids, and lists what they hold. From here on it is an `OpenedNode`.
It opens the log of each replica, which after a crash may take minutes. It answers RPC, and registers once it can lead. From its
registration on it may be elected, and serves.

A stop may come in every state, also while a start waits for something. It stops what was started, the last first. A node that
was stopped does not start again: a restart is another process, with an incarnation of its own.
"""

from enum import Enum
from typing import Final


class NodeState(Enum):
    """The states. Readiness shows their values."""

    CREATED = "starting"
    WAITING = "waiting for the metadata store"
    OPENING_DIRECTORIES = "opening log directories"
    OPENING_LOGS = "opening logs"
    REGISTERING = "registering"
    SERVING = "serving"
    STOPPING = "stopping"
    STOPPED = "stopped"


class NodeStep(Enum):
    START = "start"
    IMAGE_CAME = "the image names the cluster"
    DIRECTORIES_OPENED = "its log directories are open"
    LOGS_OPENED = "its logs are open"
    REGISTERED = "it is registered"
    STOP = "stop"
    ALL_STOPPED = "all is stopped"


NODE_TRANSITIONS: Final[dict[tuple[NodeState, NodeStep], NodeState]] = {
    (NodeState.CREATED, NodeStep.START): NodeState.WAITING,
    (NodeState.WAITING, NodeStep.IMAGE_CAME): NodeState.OPENING_DIRECTORIES,
    (NodeState.OPENING_DIRECTORIES, NodeStep.DIRECTORIES_OPENED): NodeState.OPENING_LOGS,
    (NodeState.OPENING_LOGS, NodeStep.LOGS_OPENED): NodeState.REGISTERING,
    (NodeState.REGISTERING, NodeStep.REGISTERED): NodeState.SERVING,
    (NodeState.CREATED, NodeStep.STOP): NodeState.STOPPING,
    (NodeState.WAITING, NodeStep.STOP): NodeState.STOPPING,
    (NodeState.OPENING_DIRECTORIES, NodeStep.STOP): NodeState.STOPPING,
    (NodeState.OPENING_LOGS, NodeStep.STOP): NodeState.STOPPING,
    (NodeState.REGISTERING, NodeStep.STOP): NodeState.STOPPING,
    (NodeState.SERVING, NodeStep.STOP): NodeState.STOPPING,
    (NodeState.STOPPING, NodeStep.ALL_STOPPED): NodeState.STOPPED,
}


def after(state: NodeState, step: NodeStep) -> NodeState:
    """The state after a step, which must be possible in `state`."""
    found = NODE_TRANSITIONS.get((state, step))
    assert found is not None, f"{step} in {state}"
    return found
