"""What Kafka's command-line tools say here and not there, since they need an API that is not built: one row for each.

docs/protocol.md prints the rows. tests/compat/clients/test_tools_beside_kafka.py runs each, and fails on a row that is no longer
true. What is not listed works: the tests beside it run those tools.
"""

from typing import Final

from libs.lean_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class ToolRow:
    """A tool's name, what follows `--bootstrap-server`, and words that it prints here. `needs` is what is missing, with its
    issue; empty: it will not be built."""

    tool: str
    arguments: tuple[str, ...]
    says: str
    needs: str


def _unsupported(api: str) -> str:
    return f"The node does not support {api}"


_SHARE_GROUPS: Final = "share groups"
_SECURITY: Final = "authentication"
_METRICS_CHANGE: Final = ("--alter", "--name", "m", "--interval", "1000", "--metrics", "org.apache.kafka.consumer.")
_NO_VOTER: Final = ("remove-controller", "--controller-id", "1", "--controller-directory-id", "AAAAAAAAAAAAAAAAAAAAAQ")

TOOL_ROWS: Final = (
    ToolRow("kafka-delegation-tokens", ("--describe",), _unsupported("DESCRIBE_DELEGATION_TOKEN"), _SECURITY),
    ToolRow("kafka-client-metrics", _METRICS_CHANGE, "Unknown resource type 16", "metrics of clients"),
    ToolRow("kafka-share-groups", ("--describe", "--group", "g"), _unsupported("SHARE_GROUP_DESCRIBE"), _SHARE_GROUPS),
    ToolRow("kafka-console-share-consumer", ("--topic", "tools"), _unsupported("SHARE_GROUP_HEARTBEAT"), _SHARE_GROUPS),
    ToolRow(
        "kafka-share-consumer-perf-test",
        ("--topic", "tools", "--num-records", "1"),
        _unsupported("SHARE_GROUP_HEARTBEAT"),
        _SHARE_GROUPS,
    ),
    ToolRow(
        "kafka-verifiable-share-consumer",
        ("--topic", "tools", "--group-id", "g", "--max-messages", "1"),
        "shutdown_complete",
        _SHARE_GROUPS,
    ),
    ToolRow("kafka-streams-groups", ("--describe", "--group", "g"), _unsupported("STREAMS_GROUP_DESCRIBE"), "streams groups"),
    ToolRow("kafka-metadata-quorum", _NO_VOTER, _unsupported("REMOVE_RAFT_VOTER"), ""),
)
