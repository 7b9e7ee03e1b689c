"""The registry of APIs, against what the gateway and the coordinator make of it."""

import ast
import sys
from pathlib import Path

import pytest

from libs.wire.api_keys import ApiKey, first_flexible
from libs.wire.apis import APIS, GROUP_APIS, TRANSACTION_APIS, Api, Kind
from libs.wire.errors import ErrorCode
from libs.wire.primitives import Writer
from libs.wire.served_versions import SERVED_VERSIONS
from services.gateway.handlers import SERVED

ROWS = [pytest.param(api, id=api.name) for api in APIS.values()]
HANDLERS, CONTROLLER_REQUESTS = "services.gateway.handlers", "services.gateway.peers.controller_requests"
SHARD_TOPICS = "services.gateway.groups.shard_topics"
OF_COORDINATORS = GROUP_APIS.keys() | TRANSACTION_APIS.keys()
BY_ONE_OWNER = (Kind.GROUP_OWNER, Kind.TRANSACTION_OWNER)
OWNED = [pytest.param(api, id=api.name) for api in APIS.values() if api.kind in BY_ONE_OWNER]


@pytest.mark.parametrize("api", ROWS)
def test_a_row_bears_kafkas_name_and_a_range_of_versions(api: Api) -> None:
    assert api.name == "".join(part.capitalize() for part in api.key.name.split("_"))
    assert 0 <= api.advertised_min_version <= api.min_version <= api.max_version


def test_the_table_of_versions_has_the_rows_and_nothing_else() -> None:
    assert {key: (api.min_version, api.max_version) for key, api in APIS.items()} == SERVED_VERSIONS


def test_the_gateway_has_a_handler_for_each_row_and_for_nothing_else() -> None:
    assert set(SERVED) == set(APIS)
    assert all(SERVED[key].api is APIS[key] for key in APIS)


@pytest.mark.parametrize("api", ROWS)
def test_only_produces_fetches_and_requests_to_an_owner_begin_without_a_handler(api: Api) -> None:
    served, by_handler = SERVED[api.key], SERVED[ApiKey.METADATA].begin
    assert (served.begin is not by_handler) is (api.kind in BY_ONE_OWNER or api.key in (ApiKey.PRODUCE, ApiKey.FETCH))
    if served.begin is by_handler:
        assert served.handle is not None


def test_coordinators_decide_what_is_relayed_to_owners_and_nothing_else() -> None:
    assert {api.kind for api in GROUP_APIS.values()} == {Kind.GROUP_OWNER, Kind.ALL_GROUP_OWNERS}
    assert {api.kind for api in TRANSACTION_APIS.values()} == {Kind.TRANSACTION_OWNER, Kind.ALL_TRANSACTION_OWNERS}
    assert [api.name for api in APIS.values() if int(api.key) not in OF_COORDINATORS and api.refused is not None] == []


@pytest.mark.parametrize("api", OWNED)
def test_every_request_to_an_owner_can_be_refused(api: Api) -> None:
    assert api.refused is not None


def test_only_requests_to_owners_have_rules_for_being_sent_to_one() -> None:
    others = [api for api in APIS.values() if int(api.key) not in OF_COORDINATORS]
    assert [api.name for api in others if api.parks or api.is_repeatable or api.is_heartbeat] == []
    assert [api.name for api in APIS.values() if api.parks and api.is_repeatable] == []


def test_a_request_that_changes_a_transaction_is_not_sent_again() -> None:
    """A late copy of AddPartitionsToTxn could begin the client's next transaction."""
    repeatable = {ApiKey.DESCRIBE_TRANSACTIONS, ApiKey.LIST_TRANSACTIONS}
    assert {api.key for api in TRANSACTION_APIS.values() if api.is_repeatable} == repeatable


def test_only_api_versions_and_sasl_itself_are_answered_before_authentication() -> None:
    before = {api.key for api in APIS.values() if api.before_authentication}
    assert before == {ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE}


def test_handlers_of_the_controllers_apis_ask_the_controller_and_of_the_others_three_that_create_topics() -> None:
    # Answered by others, but a missing topic is created first.
    creating = {ApiKey.METADATA, ApiKey.FIND_COORDINATOR, ApiKey.ADD_OFFSETS_TO_TXN}
    to_controller = {key for key in SERVED if asks_the_controller(f"{HANDLERS}.{ApiKey(key).name.lower()}")}
    assert to_controller == {api.key for api in APIS.values() if api.kind is Kind.CONTROLLER} | creating


def asks_the_controller(module: str) -> bool:
    """Whether the handler's module calls the controller, or one that it imports to help it does."""
    for node in ast.walk(ast.parse(Path(sys.modules[module].__file__ or "").read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and module != HANDLERS:
            asked = node.module == CONTROLLER_REQUESTS and "ask" in [alias.name for alias in node.names]
            helps = node.module.startswith(f"{HANDLERS}.") or node.module == SHARD_TOPICS
            if asked or (helps and asks_the_controller(node.module)):
                return True
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "controller":
            return True
    return False


def test_a_refused_heartbeat_without_a_group_hears_that_the_id_is_invalid() -> None:
    api, writer = APIS[ApiKey.HEARTBEAT], Writer()
    version = first_flexible(ApiKey.HEARTBEAT) - 1
    body = b"\0\0" + b"\0\0\0\1" + b"\0\1m" + b"\xff\xff"  # no group, generation 1, member m, no instance id
    api.write_response(writer, api.refusal(version, body, int(ErrorCode.NOT_COORDINATOR), ""), version)
    assert int.from_bytes(writer.buffer[-2:], "big") == ErrorCode.INVALID_GROUP_ID
