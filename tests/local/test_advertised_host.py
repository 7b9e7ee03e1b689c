"""HOST= of `make up`: what it stands for, and what is refused."""

import pytest

from services.local.advertised_host import settings_for, unreachable
from services.local.errors import LauncherError
from tests.support.ports import reserve_ports


def test_other_machines_are_let_in_at_every_address_and_sent_to_the_given_one() -> None:
    expected = {"PENSTOCK_LISTEN_HOST": "0.0.0.0", "PENSTOCK_ADVERTISED_HOST": "192.168.1.5"}
    assert settings_for("192.168.1.5", {}) == settings_for("192.168.1.5", expected) == expected


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_loopback_lets_nobody_else_in(host: str) -> None:
    assert settings_for(host, {}) == {"PENSTOCK_LISTEN_HOST": "127.0.0.1", "PENSTOCK_ADVERTISED_HOST": host}


@pytest.mark.parametrize("host", ["", "0.0.0.0", "10.0.0.1:9092", "a b", "::", "[::]", "::1%lo", "[::1]:9092", "-a"])
def test_what_is_no_address_of_one_machine_is_refused(host: str) -> None:
    with pytest.raises(LauncherError, match=r"^HOST=.*: expected the name or address .* without a port$"):
        settings_for(host, {})


@pytest.mark.parametrize(("host", "listens"), [("::1", "::1"), ("[::1]", "::1"), ("fd00::5", "::")])
def test_an_ipv6_address_may_be_given_and_is_advertised_without_brackets(host: str, listens: str) -> None:
    assert settings_for(host, {}) == {"PENSTOCK_LISTEN_HOST": listens, "PENSTOCK_ADVERTISED_HOST": host.strip("[]")}


def test_a_name_that_does_not_resolve_is_refused() -> None:
    with pytest.raises(LauncherError, match=r"HOST=nobody\.invalid has no address on this machine"):
        settings_for("nobody.invalid", {})


def test_two_ways_that_differ_contradict_each_other() -> None:
    with pytest.raises(LauncherError, match=r"HOST=10\.0\.0\.1 and PENSTOCK_ADVERTISED_HOST=10\.0\.0\.2 contradict each other"):
        settings_for("10.0.0.1", {"PENSTOCK_ADVERTISED_HOST": "10.0.0.2"})


def test_an_address_that_this_machine_cannot_connect_to_is_found() -> None:
    reservation = reserve_ports(1)
    try:
        closed = f"127.0.0.1:{reservation.first}"
        assert unreachable(closed) == [closed]
    finally:
        reservation.release()
