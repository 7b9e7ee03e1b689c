"""The instruments of the chaos runs: gaps, payloads, and recorded ops that the judge can pair."""

import os
import subprocess
import sys
import time
from pathlib import Path

from services.local.cluster_plan import ProcessPlan
from tests.history.calls import pair
from tests.history.judge import judge
from tests.history.model import Commit, Poll, Position, Send
from tests.support.requirements import ROOT
from tests.system.chaos.acknowledgement_gaps import acknowledgements, longest_gap_ms, summary
from tests.system.chaos.groups import PROTOCOLS, GroupReaders
from tests.system.chaos.recorder import Recorder, key_of, payload_of, value_in
from tests.system.chaos.skewed_clock import set_clock, with_odd_clock

MS = 1_000_000


def test_the_longest_gap_counts_where_it_reaches_into_the_time_asked_for() -> None:
    times = [0, 10 * MS, 500 * MS, 510 * MS, 515 * MS]
    assert longest_gap_ms(times, 20 * MS, 300 * MS) == 490.0
    assert longest_gap_ms(times, 505 * MS, 515 * MS) == 10.0
    assert longest_gap_ms([], 0, 70 * MS) == 70.0


def test_a_summary_has_the_median_and_the_maximum() -> None:
    assert summary([4.0, 1.0, 3.0, 2.0]) == {"n": 4, "p50": 2.5, "max": 4.0}


def test_a_value_is_found_in_its_payload_and_what_nobody_wrote_is_none_of_ours() -> None:
    assert value_in(payload_of(17)) == 17
    assert value_in(b"x" * 20) == value_in(None) == -1


def test_records_of_clients_side_by_side_are_a_history_that_can_be_judged() -> None:
    recorder = Recorder()
    producer, plain, reader = recorder.process(), recorder.process(plain=True), recorder.process()
    key = key_of("t", 0)
    first = recorder.begin(producer, "send", (Send(key, recorder.value()),))
    second = recorder.begin(producer, "send", (Send(key, recorder.value()),))
    unanswered = recorder.begin(plain, "send", (Send(key, recorder.value()),))
    recorder.end(first, "ok", (Send(key, 1, 0),))
    recorder.end(second, "ok", (Send(key, 2, 1),))
    recorder.end(recorder.begin(reader, "poll"), "ok", (Poll({key: ((0, 1), (1, 2))}),))
    history = recorder.history(read_to_end=True, about={})
    assert [call.type for call in pair(history.ops)] == ["ok", "ok", "info", "ok"]
    assert unanswered.process in history.plain
    assert not judge(history).findings
    assert recorder.ends() == {key: 1}
    assert recorder.acknowledged() == {(producer, key): 2}
    assert len(acknowledgements(history.ops)[producer, key]) == 2


def test_an_offset_that_falls_below_a_commit_that_was_acknowledged_before_is_a_finding() -> None:
    recorder = Recorder()
    member, watcher = recorder.process(), recorder.process()
    early = recorder.begin(watcher, "offsets")
    recorder.end(recorder.begin(member, "offsets", (Commit("g", {"t-0": 7}),)), "ok", (Commit("g", {"t-0": 7}),))
    recorder.end(recorder.begin(member, "offsets", (Commit("g", {"t-0": 9}),)), "info", (Commit("g", {"t-0": 9}),))
    recorder.end(early, "ok", (Position("g", {"t-0": 0}),))
    assert not judge(recorder.history(read_to_end=False, about={})).findings, "that was asked before"
    recorder.end(recorder.begin(watcher, "offsets"), "ok", (Position("g", {"t-0": 9}),))
    assert not judge(recorder.history(read_to_end=False, about={})).findings, "what nobody knows of may have happened"
    recorder.end(recorder.begin(watcher, "offsets"), "ok", (Position("g", {"t-0": 6}),))
    assert [finding.kind for finding in judge(recorder.history(read_to_end=False, about={})).findings] == ["lost-offsets"]


def test_groups_that_have_not_read_or_not_committed_all_are_short_of_it() -> None:
    readers = GroupReaders(Recorder(), "127.0.0.1:1", {"t": 1})
    names = [f"group-{protocol}" for protocol in PROTOCOLS]
    assert readers.short({}) == []
    assert len(readers.short({"t-0": 1, "of-no-group-0": 5})) == len(names)
    for name in names:
        readers.has_read(name, "t-0", 1)
        readers.observe(name, {"t-0": 2})
    assert len(readers.short({"t-0": 1})) == len(names), "the first record was skipped"
    for name in names:
        readers.has_read(name, "t-0", 0)
    assert readers.short({"t-0": 1}) == []
    readers.observe(names[0], {"t-0": 1})
    assert len(readers.complaints) == 1


def test_a_service_with_an_odd_clock_is_as_wrong_as_requested(tmp_path: Path) -> None:
    (tmp_path / "tells.py").write_text(
        "import sys\nfrom libs.clock import SystemClock\nfor _ in sys.stdin:\n    print(SystemClock().wall_ms(), flush=True)\n",
        encoding="utf-8",
    )
    plan = ProcessPlan("storage-1", "storage", (sys.executable, "-Xany", "-m", "tells"), "-Xany", (), 0, "/", "")
    odd = with_odd_clock(plan, tmp_path)
    environment = {**os.environ, **odd.environment, "PYTHONPATH": f"{ROOT}:{tmp_path}"}
    with subprocess.Popen(odd.argv, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for ahead_ms in (0, 86_400_000, -3_600_000, 0):
            set_clock(tmp_path, "storage-1", ahead_ms)
            print(file=process.stdin, flush=True)
            assert abs(int(process.stdout.readline()) - ahead_ms - time.time() * 1000) < 60_000


def test_etcd_keeps_the_clock_of_the_machine(tmp_path: Path) -> None:
    plan = ProcessPlan("etcd", "etcd", ("etcd",), "etcd", (), 0, "/", "")
    assert with_odd_clock(plan, tmp_path) == plan
