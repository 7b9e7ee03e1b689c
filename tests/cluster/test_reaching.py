"""The choice between the addresses of a member."""

import pytest

from libs.cluster.member_addresses import address_of
from libs.cluster.records import Member

UNIX, TCP = "unix:/run/s", "tcp:node:7000"


@pytest.mark.parametrize(
    ("host", "unix", "tcp", "here", "taken"),
    [
        ("us", UNIX, TCP, {"/run/s"}, UNIX),
        ("us", UNIX, TCP, set(), TCP),
        ("them", UNIX, TCP, {"/run/s"}, TCP),
        ("us", "", TCP, {""}, TCP),
        ("us", UNIX, "", set(), ""),
        ("them", UNIX, "", {"/run/s"}, ""),
    ],
)
def test_a_unix_socket_is_taken_on_the_same_kernel_if_it_is_there(
    host: str, unix: str, tcp: str, here: set[str], taken: str
) -> None:
    member = Member("storage", 1, 1, host, tcp_address=tcp, unix_address=unix)
    assert address_of(member, "us", here.__contains__) == taken
