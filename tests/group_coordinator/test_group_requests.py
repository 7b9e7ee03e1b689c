"""Requests of gateways are read from their lists as the contract defines them."""

from dataclasses import astuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from libs.coordinator.requests.client_requests import SUCCESS, _fields
from libs.rpc.contracts.coordinators import Ask, AskReply
from libs.rpc.messages.envelope import pack_body
from libs.rpc.messages.errors import ContractError
from libs.rpc.messages.schema import pack, unpack

INTS = st.integers(-(1 << 63), (1 << 63) - 1)
ASKS = st.builds(Ask, INTS, INTS, INTS, st.text(max_size=5), st.text(max_size=5), INTS)
FIELDS = st.lists(INTS | st.text(max_size=2) | st.booleans() | st.none() | st.binary(max_size=2), max_size=8)


@settings(deadline=None)
@given(ASKS, FIELDS)
def test_fields_are_those_of_the_contract_whatever_follows_them(ask: Ask, rest: list[object]) -> None:
    assert tuple(_fields(pack(ask) + rest)) == astuple(ask)


@settings(deadline=None)
@given(FIELDS | ASKS.flatmap(lambda ask: st.permutations(pack(ask))))
def test_a_request_that_the_contract_refuses_is_refused(body: list[object]) -> None:
    try:
        expected = astuple(unpack(Ask, body))
    except ContractError:
        with pytest.raises(ContractError):
            _fields(body)
    else:
        assert tuple(_fields(body)) == expected


def test_a_gateway_of_an_older_version_names_no_revision() -> None:
    ask = Ask(3, 8, 9, "a client", "/127.0.0.1")
    assert tuple(_fields(pack(ask)[:5])) == astuple(ask)
    assert ask.topics_revision == 0


def test_all_is_well_in_the_words_of_the_contract() -> None:
    assert pack_body(pack(AskReply(0))) == SUCCESS
