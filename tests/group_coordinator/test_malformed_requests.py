"""What is no request fills no log."""

import pytest

from services.group_coordinator.protocol.malformed_requests import EVERY_S, PEERS_MAX, MalformedRequestLog


class Told:
    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self.now = 5.0
        self.unreadable = MalformedRequestLog(lambda: self.now)
        self._caplog = caplog

    def tell(self, peer: str = "a") -> None:
        self.unreadable.write(peer, "Heartbeat", 4, ValueError("too short"))

    @property
    def lines(self) -> list[tuple[str, int]]:
        """The peers of the lines, each with the number of dropped ones."""
        result = [record.__dict__["fields"] for record in self._caplog.records if record.message == "malformed request"]
        return [(line["peer"], line["suppressed"]) for line in result]

    @property
    def others(self) -> list[int]:
        """How many of peers that are forgotten, where a line says so."""
        result = [record.__dict__["fields"] for record in self._caplog.records if record.message == "malformed request"]
        return [line["suppressed_of_others"] for line in result if "suppressed_of_others" in line]


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> Told:
    return Told(caplog)


def test_a_second_has_one_line_and_the_next_says_how_many_there_were(told: Told) -> None:
    for _ in range(1000):
        told.tell()
    assert told.lines == [("a", 0)]
    told.now += EVERY_S
    told.tell()
    told.tell()
    assert told.lines == [("a", 0), ("a", 999)]
    told.now += EVERY_S
    told.tell()
    assert told.lines[-1] == ("a", 1)


def test_each_peer_has_its_own_second(told: Told) -> None:
    for peer in "abab":
        told.tell(peer)
    assert told.lines == [("a", 0), ("b", 0)]


def test_peers_without_end_are_not_all_remembered(told: Told) -> None:
    for number in range(PEERS_MAX * 3):
        told.tell(str(number))
        told.tell(str(number))
    assert len(told.unreadable._logged_at) <= PEERS_MAX
    assert len(told.unreadable._suppressed) <= PEERS_MAX
    assert len(told.lines) == PEERS_MAX * 3


def test_requests_of_forgotten_peers_are_counted_all_the_same(told: Told) -> None:
    for number in range(PEERS_MAX):
        told.tell(str(number))
        told.tell(str(number))
        told.tell(str(number))
    told.tell("one more")
    assert told.others == [2 * PEERS_MAX]
    told.now += EVERY_S
    told.tell("0")
    told.tell("one more")
    assert told.lines[-2:] == [("0", 0), ("one more", 0)]
    assert told.others == [2 * PEERS_MAX], "once"
