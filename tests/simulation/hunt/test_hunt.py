"""A hunt gives each kind its share, goes on where the last one ended, and loses no seed that failed."""

import json
import subprocess
import sys
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

import pytest

from tests.simulation.cluster.seed_reports import PROVE_ALL, print_paths
from tests.simulation.failed_seeds import REMEMBERED, failed_seeds, remember
from tests.simulation.hunt import page, properties, seed_runs
from tests.simulation.hunt.progress import Progress
from tests.simulation.hunt.replays import replay_failed
from tests.simulation.hunt.seed_runs import KINDS, Job, Kind, Outcome, run_job
from tests.simulation.hunt.turns import Figures, hunt
from tests.simulation.replication.mutants import BUGS
from tests.support.requirements import ROOT


class AtOnce(Executor):
    """Runs each job when it is submitted."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        done: Future[Any] = Future()
        done.set_result(fn(*args, **kwargs))
        return done


class Clock:
    """The seconds of CPU that all jobs took."""

    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


COST_S = {"slow": 20.0, "fast": 0.5}
TOGETHER = {"slow": 1, "fast": 10}


def hunted(file: Path, seconds: float, failing: dict[str, int] | None = None) -> list[Outcome]:
    clock = Clock()

    def run(job: Job) -> Outcome:
        cpu_s = COST_S[job.kind]
        clock.now_s += cpu_s
        failed = {seed: "wrong" for seed in job.seeds if seed == (failing or {}).get(job.kind)}
        return Outcome(job.kind, len(job.seeds), failed, cpu_s)

    return list(hunt(AtOnce(), run, TOGETHER, Progress.load(file), seconds=seconds, workers=1, now=clock))


def test_each_kind_gets_the_same_share_of_the_cpu(tmp_path: Path) -> None:
    figures = Figures()
    for outcome in hunted(tmp_path / "progress.json", 200.0):
        figures.add(outcome)
    assert abs(figures.cpu_s["slow"] - figures.cpu_s["fast"]) <= max(COST_S.values())
    assert figures.seeds["slow"] == figures.cpu_s["slow"] / COST_S["slow"]
    assert figures.seeds["fast"] == 10 * figures.cpu_s["fast"] / COST_S["fast"]


def test_no_job_begins_after_the_time(tmp_path: Path) -> None:
    assert sum(outcome.cpu_s for outcome in hunted(tmp_path / "progress.json", 30.0)) <= 30.0 + max(COST_S.values())
    assert hunted(tmp_path / "progress.json", 0.0) == []


def test_a_hunt_goes_on_where_the_last_one_ended(tmp_path: Path) -> None:
    file = tmp_path / "kept" / "progress.json"
    hunted(file, 50.0)
    before = json.loads(file.read_text(encoding="utf-8"))
    more = hunted(file, 50.0)
    after = json.loads(file.read_text(encoding="utf-8"))
    for kind in TOGETHER:
        run = sum(outcome.seeds for outcome in more if outcome.kind == kind)
        assert after["next_seed"][kind] == before["next_seed"][kind] + run
        assert run


def test_many_short_hunts_reach_every_kind(tmp_path: Path) -> None:
    """The kinds that cost most come first in one of them, not in each."""
    reached = {outcome.kind for _ in range(3) for outcome in hunted(tmp_path / "progress.json", 0.1)}
    assert reached == set(TOGETHER)


def test_a_hunt_that_is_broken_off_runs_none_of_its_seeds_again(tmp_path: Path) -> None:
    progress = Progress.load(tmp_path / "progress.json")
    outcomes = hunt(AtOnce(), lambda job: Outcome(job.kind, 1, {}, 1.0), {"slow": 1}, progress, seconds=1e9, workers=1)
    next(outcomes)
    outcomes.close()
    taken = Progress.load(tmp_path / "progress.json").next_seed["slow"]
    assert taken == progress.next_seed["slow"]
    assert progress.take("slow", 1).seeds == range(taken, taken + 1)


def test_a_new_kind_gets_its_share_and_no_more(tmp_path: Path) -> None:
    hunted(tmp_path / "progress.json", 100.0)
    progress = Progress.load(tmp_path / "progress.json")
    progress.begin(["slow", "fast", "new"])
    assert progress.cpu_s["new"] == min(progress.cpu_s["slow"], progress.cpu_s["fast"])


def test_a_seed_that_failed_is_written_once_and_in_order(tmp_path: Path) -> None:
    file = tmp_path / "failed.json"
    file.write_text("{}", encoding="utf-8")
    remember("groups", {30: "late", 4: "two\n  lines"}, file)
    remember("disk", {1: "a hole"}, file)
    remember("groups", {4: "something else now"}, file)
    assert failed_seeds(file) == {"disk": {1: "a hole"}, "groups": {4: "two lines", 30: "late"}}
    assert list(failed_seeds(file)) == ["disk", "groups"]


def test_the_seeds_that_ci_replays_are_of_kinds_that_can_be_replayed() -> None:
    kinds = failed_seeds()
    assert kinds.keys() == KINDS.keys()
    assert sum(map(len, kinds.values())) >= 17, "a seed that found something stays"
    assert all(story for seeds in kinds.values() for story in seeds.values())
    assert REMEMBERED.name == "failed_seeds.json"


def test_a_run_that_raises_has_failed_and_the_seeds_behind_it_run(monkeypatch: pytest.MonkeyPatch) -> None:
    ran = []

    def violation_of(seed: int) -> str:
        ran.append(seed)
        if seed == 1:
            raise RuntimeError("no way")
        return "a hole" if seed == 2 else ""

    monkeypatch.setitem(KINDS, "disk", Kind(violation_of, 1))
    outcome = run_job(Job("disk", range(4)))
    assert ran == [0, 1, 2, 3]
    assert outcome.failed == {1: "the run raised RuntimeError: no way", 2: "a hole"}


def test_a_hunt_notices_a_planted_bug() -> None:
    """The whole way from a kind of simulation to the violation that a hunt keeps."""
    with BUGS.plant("a produce is answered before it is committed"):
        outcome = run_job(Job("component", range(4)))
    assert outcome.failed.keys() <= set(range(4))
    assert outcome.failed
    assert outcome.cpu_s > 0
    assert run_job(Job("component", range(4))).failed == {}


def test_a_seed_that_fails_again_fails_the_replay(capsys: pytest.CaptureFixture[str]) -> None:
    assert replay_failed({"component": {3: "a hole"}, "no such kind": {7: "another"}}) == 1
    told = capsys.readouterr().out
    assert "component seed 3: sound; once: a hole" in told
    assert told.endswith("  replay: make simulate KIND=no such kind SEED=7\n")


def test_enough_clusters_are_replayed_to_prove_that_rare_paths_were_taken(capsys: pytest.CaptureFixture[str]) -> None:
    """CI has no other sample of whole clusters."""
    clusters = len(failed_seeds()["cluster"])
    assert clusters >= PROVE_ALL
    assert print_paths({"taken": 1, "not taken": 0}, clusters) == ["not taken"]
    assert "! never: not taken" in capsys.readouterr().out


def test_a_property_that_fails_with_other_examples_is_named(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("from tests.conftest import *\n", encoding="utf-8")
    test = tmp_path / "test_numbers.py"
    test.write_text(
        "from hypothesis import given, strategies\n\n\n"
        "@given(strategies.integers())\ndef test_numbers_are_small(number):\n    assert number < 100\n\n\n"
        "def test_that_is_no_property():\n    assert False\n",
        encoding="utf-8",
    )
    found = properties.violation_of(5, (str(test),))
    assert "test_numbers_are_small: " in found
    assert "no_property" not in found


def test_tests_that_cannot_be_imported_are_no_seed_that_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hunt went on while the code was exchanged, and kept a seed for CI that had shown nothing."""
    (tmp_path / "conftest.py").write_text("from tests.conftest import *\n", encoding="utf-8")
    (tmp_path / "test_numbers.py").write_text("from os import no_such_name\n", encoding="utf-8")
    monkeypatch.setitem(KINDS, "properties", Kind(lambda seed: properties.violation_of(seed, (str(tmp_path),)), 1))
    with pytest.raises(properties.TestsDoNotRun, match="no_such_name"):
        run_job(Job("properties", [5]))


def test_a_hunt_in_processes_ends_by_sigterm_with_what_it_has_run(tmp_path: Path) -> None:
    file = tmp_path / "progress.json"
    file.write_text('{"next_seed": {"groups": 1000}, "cpu_s": {"groups": 0.0}}', encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "tests.simulation.hunt",
        "--kinds=groups",
        "--workers=1",
        "--nice=0",  # on a busy core it would get none of it
        f"--progress={file}",
        f"--failed={tmp_path / 'failed.json'}",
    ]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, encoding="utf-8") as running:
        assert running.stdout is not None
        assert running.stdout.readline().startswith("groups: 100 seeds, ")
        running.terminate()
        told = running.stdout.read()
    assert running.returncode == 1
    assert "| groups | 100 |" in told
    assert told.endswith("The next hunt goes on from here.\n")
    assert Progress.load(file).next_seed["groups"] >= 1100


def test_the_page_has_the_figures_of_the_last_long_hunt(tmp_path: Path) -> None:
    figures = Figures()
    figures.add(Outcome("component", 12_000, {}, 360.0))
    figures.add(Outcome("cluster", 4, {77: "a hole"}, 90.0))
    copy = tmp_path / "simulation.md"
    before = page.PAGE.read_text(encoding="utf-8")
    copy.write_text(before, encoding="utf-8")
    page.write_figures(figures, 30.0, copy)
    after = copy.read_text(encoding="utf-8")
    assert "| component | 12,000 | 6.0 | none |\n| cluster | 4 | 1.5 | 77 |\n" in after
    assert "`make hunt MINUTES=30`" in after
    page.write_figures(Figures(), 30.0, copy)
    assert len(copy.read_text(encoding="utf-8")) < len(after)
    assert seed_runs.KINDS.keys() >= {"disk", "component", "groups", "transactions", "cluster", "properties"}
