"""Calls that were denied: counted, and logged at a bounded rate."""

import logging
from typing import Final

from libs.rpc.server.call import Call
from libs.telemetry.definitions import CounterDefinition, MetricSet
from libs.telemetry.limited_lines import LimitedLines, RunningLoop

log = logging.getLogger("network")

LINES_S: Final = 10.0
"""The interval of lines about one role and one method."""


class DeniedCalls(MetricSet):
    """The denied calls of a process's RPC servers. Roles and methods are closed sets, so labels are bounded."""

    denied: dict[tuple[str, str], int] = CounterDefinition(
        name="penstock_rpc_calls_denied",
        help="Calls of other processes that their role may not make, or that named another sender than their connection.",
        labels=("role", "method"),
        healthy="0",
        otherwise="look at the log event *call denied*: a process of another version, or a stranger on the RPC port",
    ).kept()

    def __init__(self) -> None:
        super().__init__()
        self._lines = LimitedLines(log, LINES_S, RunningLoop())

    def count(self, call: Call, reason: str) -> None:
        key = call.peer.role, call.method
        self.denied[key] = self.denied.get(key, 0) + 1
        peer = call.peer
        self._lines.write(
            key,
            logging.WARNING,
            "call denied",
            role=peer.role,
            node=peer.node_id,
            method=call.method,
            peer=peer.address,
            reason=reason,
        )
