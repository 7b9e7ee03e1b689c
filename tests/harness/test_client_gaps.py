"""The instruments of the client gaps: what a stream tells is read in full, and compared with the log."""

from pathlib import Path
from typing import cast

import pytest

from tests.bench.client_gaps.faults import Faults
from tests.bench.client_gaps.log_comparison import compared, compared_with_feed
from tests.bench.client_gaps.run import Load, Run
from tests.bench.client_gaps.streams import COMMANDS, PROBES, ClientEnded, Stream
from tests.support.polling import eventually

SAYS = "printf 'a 1 1000\\na 2 2000\\nf 3 3000 TimeoutError gone\\na '; sleep 0.2; printf '4 4000\\n'"
RECEIVES = "printf 'r 7 1000 10\\nr 8 1100 11\\nr 8 1200 11\\nr 10 1300 13\\n'"


def stream(monkeypatch: pytest.MonkeyPatch, directory: Path, script: str) -> Stream:
    monkeypatch.setitem(COMMANDS, "told", lambda: (["sh", "-c", script, "sh"], {}))
    return Stream("told", "produce", [], directory / "stream")


def test_a_line_that_is_half_written_is_read_when_it_is_whole(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def read(told: Stream) -> list[int]:
        told.read()
        return told.sequences

    with stream(monkeypatch, tmp_path, SAYS) as told:
        eventually(lambda: read(told) == [1, 2, 4])
        assert told.times_us == [1000, 2000, 4000]
        assert told.failures == ["3 TimeoutError gone"]


def test_a_client_that_ends_by_itself_is_named_with_its_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with stream(monkeypatch, tmp_path, "echo 'cannot go on' >&2; exit 1") as told:

        def runs() -> bool:
            told.expect_running()
            return False

        with pytest.raises(ClientEnded, match="told produce ended with 1: cannot go on"):
            eventually(runs)


def test_acknowledged_records_that_are_not_stored_are_reported_as_lost_and_others_as_stored_twice(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with stream(monkeypatch, tmp_path, SAYS) as told:
        eventually(lambda: told.read() or len(told.sequences) == 3)
        stored = {0: 1, 1: 4, 2: 4, 3: 3}
        assert compared(told, stored) == {"acknowledged": 3, "lost": 1, "duplicated": 1, "failed": 1}


def test_records_that_a_consumer_passes_over_or_gets_twice_are_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with stream(monkeypatch, tmp_path, RECEIVES) as told:
        eventually(lambda: told.has_received(13))
        feed = {offset: offset - 3 for offset in range(9, 14)}
        assert compared_with_feed(told, feed) == {"received": 3, "passed_over": 1, "received_again": 1}


def test_what_the_machine_did_itself_is_told_apart(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(PROBES, "machine", lambda: (["true"], {}))
    with stream(monkeypatch, tmp_path, SAYS) as told, Stream("machine", "disk", [], tmp_path / "probe") as probe:
        run = Run(cast(Faults, None), [told], [probe], Load())
        run.gaps_ms[told, "leader-killed"] = [90.0, 3000.0, 400.0]
        run.gaps_ms[probe, "leader-killed"] = [11.0, 2900.0, 12.0]
        figures = {str(figure["client"]): figure for figure in run.figures()}
    assert figures["told"]["gap_ms"] == {"n": 3, "p50": 400.0, "max": 3000.0}
    assert figures["told"]["undisturbed"] == {"n": 2, "p50": 245.0, "max": 400.0, "over_300_ms": 1}
    assert figures["machine"]["gap_ms"] == {"n": 3, "p50": 12.0, "max": 2900.0}
