"""Malformed requests fill no log."""

import pytest

from libs.coordinator.requests.malformed_requests import EVERY_S, PEERS_MAX, MalformedRequestLog


class LogLines:
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
        """The number of requests of forgotten peers, where a line says so."""
        result = [record.__dict__["fields"] for record in self._caplog.records if record.message == "malformed request"]
        return [line["suppressed_of_others"] for line in result if "suppressed_of_others" in line]


@pytest.fixture
def log_lines(caplog: pytest.LogCaptureFixture) -> LogLines:
    return LogLines(caplog)


def test_a_second_has_one_line_and_the_next_says_how_many_there_were(log_lines: LogLines) -> None:
    for _ in range(1000):
        log_lines.tell()
    assert log_lines.lines == [("a", 0)]
    log_lines.now += EVERY_S
    log_lines.tell()
    log_lines.tell()
    assert log_lines.lines == [("a", 0), ("a", 999)]
    log_lines.now += EVERY_S
    log_lines.tell()
    assert log_lines.lines[-1] == ("a", 1)


def test_each_peer_has_its_own_second(log_lines: LogLines) -> None:
    for peer in "abab":
        log_lines.tell(peer)
    assert log_lines.lines == [("a", 0), ("b", 0)]


def test_peers_without_end_are_not_all_remembered(log_lines: LogLines) -> None:
    for number in range(PEERS_MAX * 3):
        log_lines.tell(str(number))
        log_lines.tell(str(number))
    assert log_lines.unreadable.remembered_peers <= PEERS_MAX
    assert len(log_lines.lines) == PEERS_MAX * 3


def test_requests_of_forgotten_peers_are_counted_all_the_same(log_lines: LogLines) -> None:
    for number in range(PEERS_MAX):
        log_lines.tell(str(number))
        log_lines.tell(str(number))
        log_lines.tell(str(number))
    log_lines.tell("one more")
    assert log_lines.others == [2 * PEERS_MAX]
    log_lines.now += EVERY_S
    log_lines.tell("0")
    log_lines.tell("one more")
    assert log_lines.lines[-2:] == [("0", 0), ("one more", 0)]
    assert log_lines.others == [2 * PEERS_MAX], "once"
