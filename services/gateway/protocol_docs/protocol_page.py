"""Writes docs/protocol.md from the table of APIs and the list of differences.

`python -m services.gateway.protocol_docs.protocol_page [--check]`
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from libs.wire.api_keys import ApiKey
from libs.wire.apis import APIS, Api, Kind
from services.gateway.protocol_docs.differences import DIFFERENCES, Difference
from services.gateway.protocol_docs.tools import TOOL_ROWS, ToolRow

PAGE = Path(__file__).parents[3] / "docs" / "protocol.md"

_NEVER: Final = {
    "between Kafka's own brokers and controllers": (
        ApiKey.VOTE,
        ApiKey.BEGIN_QUORUM_EPOCH,
        ApiKey.END_QUORUM_EPOCH,
        ApiKey.ALTER_PARTITION,
        ApiKey.ENVELOPE,
        ApiKey.FETCH_SNAPSHOT,
        ApiKey.BROKER_REGISTRATION,
        ApiKey.BROKER_HEARTBEAT,
        ApiKey.ALLOCATE_PRODUCER_IDS,
        ApiKey.CONTROLLER_REGISTRATION,
        ApiKey.ASSIGN_REPLICAS_TO_DIRS,
        ApiKey.UPDATE_RAFT_VOTER,
    ),
    "with Kafka's Raft quorum, which Penstock does not have": (
        ApiKey.ADD_RAFT_VOTER,
        ApiKey.REMOVE_RAFT_VOTER,
    ),
}

_TOP = """# The Kafka protocol, as Penstock serves it

Made by `python -m services.gateway.protocol_docs.protocol_page` from the registry in
`libs/wire/apis.py` and the lists in `services/gateway/protocol_docs/`; do not edit.

The level is Apache Kafka 4.2. The advertised versions are the served ones, with one exception, which Kafka has too: Produce is
advertised from version 0 and accepted from version 3 (KAFKA-18659). A request of any other version closes the connection, as in
Kafka.

## Served

| key | API | versions | who answers |
|--:|---|---|---|
"""

_WHO_ANSWERS: Final = {
    Kind.GATEWAY: "gateway",
    Kind.CONTROLLER: "controller",
    Kind.GROUP_OWNER: "the group's coordinator",
    Kind.ALL_GROUP_OWNERS: "all group coordinators",
    Kind.TRANSACTION_OWNER: "the transactional id's coordinator",
    Kind.ALL_TRANSACTION_OWNERS: "all transaction coordinators",
}

_DIFFERENCES = """
## Differences from Kafka

These are all the differences that a client can observe. `tests/compat/differential` sends the same requests to Apache Kafka 4.2.1
and to Penstock. It fails on a difference that is not listed, and on a listed one that no longer exists. A request to a single
broker cannot show some of them; their rows say why.

| where | difference | id |
|---|---|---|
"""

_TOOLS = """
## Kafka's command-line tools

They print what they print against Apache Kafka 4.2, but for the differences above and for these commands, which need what is not
built. `tests/compat/clients/test_tools_beside_kafka.py` runs each of them.

`kafka-replica-verification` works for topics of one replica only. It reads followers, which answer NOT_LEADER_OR_FOLLOWER to
those who name no rack. It then goes on saying `max lag is 0` for the offset where it began. `kafka-storage` and
`kafka-metadata-shell` are for files that Penstock does not have, and `kafka-jmx` is for a JVM.

| command | what it says | needs |
|---|---|---|
"""

_EVERYWHERE = """
## Everywhere

- Broker ids are storage node ids. A gateway has one port per broker id, and a bootstrap port that stands for no broker.
- A connection executes one request at a time, except that consecutive Produces are pipelined; answers keep the order.
- `throttle_time_ms` is how long a client over a quota has to wait. Its connection is not read meanwhile (KIP-219). It is 10 s at
  most; what is left comes with a later answer.
"""


def page() -> str:
    rows = [_row(api) for api in sorted(APIS.values(), key=lambda api: api.key)]
    foreign = {key for keys in _NEVER.values() for key in keys}
    missing = [f"{_name(key)} ({int(key)})" for key in ApiKey if key not in APIS and key not in foreign]
    never = [f"- Spoken only {where}: {', '.join(_name(key) for key in keys)}." for where, keys in _NEVER.items()]
    return "".join(
        [
            _TOP,
            *(row + "\n" for row in rows),
            _DIFFERENCES,
            *(_difference(difference) + "\n" for difference in DIFFERENCES),
            _TOOLS,
            *(_tool(row) + "\n" for row in TOOL_ROWS),
            _EVERYWHERE,
            "\n## Not built yet\n\nThese APIs are not advertised, and a request closes the connection.\n\n",
            *(f"- {name}\n" for name in missing),
            "\n## Not for clients\n\n",
            *(line + "\n" for line in never),
        ]
    )


def _row(api: Api) -> str:
    versions = str(api.min_version) if api.min_version == api.max_version else f"{api.min_version}-{api.max_version}"
    if api.advertised_min_version != api.min_version:
        versions += f" (advertised {api.advertised_min_version}-{api.max_version})"
    return f"| {int(api.key)} | {api.name} | {versions} | {_WHO_ANSWERS[api.kind]} |"


def _difference(difference: Difference) -> str:
    where = "everywhere" if difference.api is None else APIS[difference.api].name
    unseen = f" (Not shown by a test: {difference.unseen}.)" if difference.unseen else ""
    return f'| {where} | {difference.text}{unseen} | <a id="{difference.id}"></a>{difference.id} |'


def _tool(row: ToolRow) -> str:
    return f"| `{' '.join((row.tool, *row.arguments))}` | `{row.says}` | {row.needs or 'a Raft quorum, which will not come'} |"


def _name(key: ApiKey) -> str:
    return "".join(part.capitalize() for part in key.name.split("_"))


def write_page(path: Path, make: Callable[[], str], module: str) -> int:
    """Writes a page that is made from code, for `python -m MODULE [--check]`. The exit status."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=f"Writes {path.name} from the code.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the page is out of date")
    check = parser.parse_args().check
    text = make()
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return 0
    if check:
        print(f"out of date: {path.name}; run python -m {module}")
        return 1
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    print(f"wrote: {path.name}")
    return 0


if __name__ == "__main__":
    sys.exit(write_page(PAGE, page, "services.gateway.protocol_docs.protocol_page"))
