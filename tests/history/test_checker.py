"""The checker as a whole: right about a model that is right, and about each defect that is planted in it."""

import time
from pathlib import Path

import pytest

from tests.history.calls import MalformedHistory
from tests.history.judge import judge
from tests.history.model import History, Op, Send, read, write
from tests.history.outcomes import outcome_of_send, outcome_of_transaction
from tests.history.reference_cluster import DEFECTS, ReferenceCluster
from tests.history.report import format_verdict
from tests.history.story import history_of


@pytest.mark.parametrize("first", range(0, 100, 25))
def test_nothing_is_found_in_what_a_correct_model_did(first: int) -> None:
    for seed in range(first, first + 25):
        verdict = judge(ReferenceCluster(seed).history(400))
        assert not verdict.findings, f"seed {seed}: {format_verdict(verdict)}"
        assert verdict.acknowledged > 50
        assert verdict.read > 50


@pytest.mark.parametrize("defect", DEFECTS)
def test_each_planted_defect_is_found_whenever_it_was_done(defect: str) -> None:
    planted = 0
    for seed in range(20):
        model = ReferenceCluster(seed, defect=defect)
        verdict = judge(model.history(400))
        if not model.planted:
            assert not verdict.findings, f"seed {seed}: {format_verdict(verdict)}"
            continue
        planted += 1
        assert DEFECTS[defect] & set(verdict.kinds()), f"seed {seed}: {format_verdict(verdict)}"
    assert planted >= 10


def test_a_history_survives_its_file(tmp_path: Path) -> None:
    history = ReferenceCluster(1).history(300)
    history = History(history.ops, True, frozenset({1, 2}), {"seed": 1})
    write(history, tmp_path / "history.jsonl")
    assert read(tmp_path / "history.jsonl") == history


def test_the_report_names_the_rule_the_place_and_the_calls() -> None:
    report = format_verdict(judge(history_of("0 send a:1@0\n0 send a:2@1\n1 poll a:2@1\n")))
    assert "lost-write: 1" in report
    assert "a: 1 was acknowledged at offset 0; nobody read it, though offset 1 was read" in report
    assert "0..1 process 0 send ok: send a:1@0" in report
    assert "4..5 process 1 poll ok: poll a:2@1" in report


def test_an_anomaly_that_kafka_allows_is_counted_and_is_no_finding() -> None:
    verdict = judge(history_of("plain 0\n0 send a:1@0\n1 poll a:1@0,1@1\n"))
    assert verdict.allowed_kinds() == {"duplicate": 1}
    interleaved = "0 > txn send a:1 b:2\n1 > txn send a:3 b:4\n0 < txn send a:1@0 b:2@1\n1 < txn send a:3@1 b:4@0\n"
    assert judge(history_of(interleaved)).allowed_kinds() == {"write-cycle": 1}


def test_a_record_that_makes_no_sense_is_refused() -> None:
    send = (Send("a", 1),)
    with pytest.raises(MalformedHistory, match="completes one of 0 calls"):
        judge(History((Op(0, 0, 0, "ok", "send", send),)))
    with pytest.raises(MalformedHistory, match="comes after"):
        judge(History((Op(1, 0, 0, "invoke", "send", send), Op(1, 0, 1, "invoke", "send", send))))
    with pytest.raises(MalformedHistory, match="never began"):
        judge(History((Op(0, 0, 0, "invoke", "send", send), Op(1, 0, 0, "ok", "poll", invoked=0))))


def test_errors_are_sorted_by_what_they_say_of_the_call() -> None:
    assert outcome_of_send("REQUEST_TIMED_OUT") == outcome_of_send("_MSG_TIMED_OUT") == "info"
    assert outcome_of_send("NOT_LEADER_OR_FOLLOWER") == outcome_of_send("UNKNOWN_SERVER_ERROR") == "info"
    assert outcome_of_send("OUT_OF_ORDER_SEQUENCE_NUMBER") == outcome_of_send("PRODUCER_FENCED") == "fail"
    assert outcome_of_transaction("REQUEST_TIMED_OUT", committing=False) == "fail"
    assert outcome_of_transaction("REQUEST_TIMED_OUT", committing=True) == "info"
    assert outcome_of_transaction("PRODUCER_FENCED", committing=True, aborting=True) == "info"
    assert outcome_of_transaction("INVALID_TXN_STATE", committing=True, aborting=True) == "fail"


def test_a_long_history_takes_a_time_in_proportion() -> None:
    def seconds(steps: int) -> float:
        history = ReferenceCluster(3).history(steps)
        begun = time.process_time()
        judge(history)
        return time.process_time() - begun

    assert seconds(16_000) < 12 * seconds(4_000) + 0.5
