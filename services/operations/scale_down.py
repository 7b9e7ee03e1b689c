"""The removal of the storage nodes with the highest ids: emptied while they run, unregistered when they are gone."""

import time
from collections.abc import Callable, Sequence

from libs.client.kafka_connection import BrokerUnreachable, KafkaConnection
from libs.client.metadata import ClusterView, metadata
from libs.wire.errors import ErrorCode
from services.operations.requests import (
    Connect,
    Refused,
    living_brokers,
    registered_brokers,
    set_decommission,
    take_back_decommission,
    topics_on,
    unregister,
)

PAUSE_S = 1.0
REPORT_S = 10.0

Say = Callable[[str], None]


class TimeOver(Exception):
    """What is not done yet, in a sentence. The same command goes on with it."""


def decommission(connect: Connect, host: str, port: int, keep: int, timeout_s: float, say: Say) -> None:
    """Empties every broker whose id is above `keep`, also one that is down. Raises TimeOver, Refused, BrokerUnreachable,
    SecurityProblem.

    A refusal leaves no broker decommissioned by this call. After TimeOver the replicas go on moving.
    """
    with connect(host, port) as connection:
        view = metadata(connection)
        _refuse_hidden_topics(connect, connection, view)
        holders = {node_id for partition in view.partitions for node_id in partition.replicas}
        leaving = sorted(node_id for node_id in living_brokers(connection) | holders if node_id > keep)
        if not leaving:
            say(f"no broker has an id above {keep}: nothing to do")
            return
        _decommission(connection, leaving, say)
    _wait(lambda: _left_on(connect, host, port, keep), timeout_s, say)
    say(f"broker {', '.join(map(str, leaving))}: empty")


def _refuse_hidden_topics(connect: Connect, bootstrap: KafkaConnection, view: ClusterView) -> None:
    """Metadata leaves out what a user may not see. A broker that has only such topics would pass for empty."""
    seen = {partition.topic for partition in view.partitions}
    stored: set[str] = set()
    for broker in view.brokers.values():
        with connect(broker.host, broker.port) as connection:
            stored |= topics_on(connection)
    if not (unseen := sorted(stored - seen)):
        return
    errors = metadata(bootstrap, unseen).errors  # of one that was deleted a moment ago: UNKNOWN_TOPIC_OR_PARTITION
    if hidden := [name for name in unseen if errors.get(name) == ErrorCode.TOPIC_AUTHORIZATION_FAILED]:
        raise Refused(
            f"{len(hidden)} topics cannot be seen, such as {hidden[0]}: replicas of them would be left behind; the user needs "
            "DESCRIBE on all topics"
        )


def _decommission(connection: KafkaConnection, leaving: Sequence[int], say: Say) -> None:
    for position, node_id in enumerate(leaving):
        try:
            set_decommission(connection, node_id)
        except Refused:
            for accepted in leaving[:position]:
                take_back_decommission(connection, accepted)
                say(f"broker {accepted} is not decommissioned any more")
            raise
        say(f"broker {node_id} is being decommissioned")


def forget(connect: Connect, host: str, port: int, keep: int, timeout_s: float, say: Say) -> None:
    """Waits until no broker with an id above `keep` lives, and unregisters those that there were. Raises as `decommission`."""
    _wait(lambda: _running_above(connect, host, port, keep), timeout_s, say)
    with connect(host, port) as connection:
        gone = sorted(node_id for node_id in registered_brokers(connection) if node_id > keep)
        for node_id in gone:
            unregister(connection, node_id)
            say(f"broker {node_id} is unregistered")
        if not gone:
            say(f"no broker has an id above {keep}: nothing to do")


def _left_on(connect: Connect, host: str, port: int, keep: int) -> str:
    with connect(host, port) as connection:
        partitions = metadata(connection).partitions
    left = [partition for partition in partitions if any(node_id > keep for node_id in partition.replicas)]
    if not left:
        return ""
    return f"{len(left)} partitions have replicas on brokers above {keep}, such as {left[0].topic}-{left[0].index}"


def _running_above(connect: Connect, host: str, port: int, keep: int) -> str:
    with connect(host, port) as connection:
        living = sorted(node_id for node_id in living_brokers(connection) if node_id > keep)
    return f"broker {', '.join(map(str, living))} still runs" if living else ""


def _wait(what_is_left: Callable[[], str], timeout_s: float, say: Say) -> None:
    """Until nothing is left. Gateways may restart meanwhile."""
    deadline = time.monotonic() + timeout_s
    reported = float("-inf")
    while True:
        try:
            left = what_is_left()
        except (BrokerUnreachable, Refused) as error:
            left = str(error)
        if not left:
            return
        now = time.monotonic()
        if now > deadline:
            raise TimeOver(f"after {timeout_s:g} s: {left}; run this again to go on")
        if now - reported >= REPORT_S:
            say(left)
            reported = now
        time.sleep(PAUSE_S)
