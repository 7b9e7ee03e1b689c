"""Gateways and coordinators each have a table of the APIs of groups: what one offers, the other decides."""

from services.gateway.handlers.group_table import GROUP_TABLE
from services.group_coordinator.apis import APIS


def test_every_version_that_gateways_offer_is_decided() -> None:
    for row in GROUP_TABLE:
        api = APIS[row.key]
        assert api.name == row.name
        assert api.min_version <= row.min_version <= row.max_version <= api.max_version, row.name


def test_no_api_is_decided_that_nobody_can_ask_for() -> None:
    assert set(APIS) == {row.key for row in GROUP_TABLE}
