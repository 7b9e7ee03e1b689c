"""The slowest tests of a run: the CPU of each, and where it waited. Printed at the end of `make test` and of each stage of CI.

A thread of each worker looks where the test is: ten times a second at first, then after each twentieth of the test's time, since
a look costs half a millisecond. A place is the innermost line in tests/ that is not of a poll (`tests/support/polling.py`), so it
names the condition that a test waits for.
"""

import faulthandler
import os
import re
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import pytest

from tests.support.requirements import ROOT

SHOWN = 20
LOOK_EVERY_S = 0.1
LOOK_EVERY_S_MAX = 2.0
LOOK_SHARE = 0.05
"""A look at a long test counts for this part of the time so far."""
SLOW_S = 0.5
"""Faster tests are not told one by one."""
PLACE_SHARE = 0.15
_LINE = re.compile(r'  File "(.*)", line (\d+) in (.*)')
_TESTS = f"{ROOT}/tests/"
_NO_PLACES = (f"{_TESTS}support/polling.py", f"{_TESTS}support/slowest_tests.py")


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one test with its fixtures. A fixture that several tests share counts for the first of them."""

    name: str
    seconds: float
    setup_s: float
    own_cpu_s: float
    children_cpu_s: float
    """Of child processes that have ended. A cluster's processes are no children."""
    places: Mapping[str, float] = field(default_factory=dict)
    """The share of the time at each place, the longest first."""

    def line(self) -> str:
        told = f"{self.seconds:7.1f} s, CPU {self.own_cpu_s:.1f} + {self.children_cpu_s:.1f} s: {self.name}"
        if self.setup_s > self.seconds / 10:
            told += f"; set-up {self.setup_s:.1f} s"
        return told + "".join(f"; {share:.0%} {place}" for place, share in self.places.items() if share >= PLACE_SHARE)


class Watch:
    """Times the test that runs in this process, and looks where its main thread is. One thread, for as long as tests run."""

    def __init__(self) -> None:
        self._main = f"0x{threading.main_thread().ident or 0:016x}"
        self._stacks = os.memfd_create("stacks")
        self._places: defaultdict[str, float] | None = None
        self._name, self._began, self._set_up, self._cpu = "", 0.0, 0.0, (0.0, 0.0)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, name="where tests wait", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._over.set()
        self._thread.join()
        os.close(self._stacks)

    def begin(self, name: str) -> None:
        self._name, self._began, self._set_up, self._cpu = name, time.monotonic(), 0.0, _cpu_s()
        self._places = defaultdict(float)

    def is_set_up(self) -> None:
        self._set_up = time.monotonic() - self._began

    def end(self) -> Cost:
        seconds, cpu = time.monotonic() - self._began, _cpu_s()
        places, self._places = self._places or {}, None
        longest = sorted(places.items(), key=lambda pair: -pair[1])[:3]
        shares = {place: round(spent_s / sum(places.values()), 2) for place, spent_s in longest}
        own, children = (after - before for before, after in zip(self._cpu, cpu, strict=True))
        return Cost(self._name, seconds, self._set_up, own, children, shares)

    def _look(self) -> None:
        wait_s, last_s = LOOK_EVERY_S, 0.0
        while not self._over.wait(wait_s):
            now_s, began_s, places = time.monotonic(), self._began, self._places
            if places is not None and now_s - began_s >= LOOK_EVERY_S:
                places[place_in(self._stack())] += now_s - max(last_s, began_s)
            last_s, wait_s = now_s, min(max(LOOK_EVERY_S, LOOK_SHARE * (now_s - began_s)), LOOK_EVERY_S_MAX)

    def _stack(self) -> str:
        """The main thread's stack, as text. A frame in hand would keep alive what a test has just let go of."""
        os.ftruncate(self._stacks, 0)
        os.lseek(self._stacks, 0, os.SEEK_SET)
        faulthandler.dump_traceback(self._stacks, all_threads=True)
        told = os.pread(self._stacks, 1 << 20, 0).decode(errors="replace")
        return next((stack for stack in told.split("\n\n") if self._main in stack.partition("\n")[0]), "")


def place_in(stack: str) -> str:
    """`stack`: as faulthandler writes it, the innermost line first."""
    for path, line, name in _LINE.findall(stack):
        if path.startswith(_TESTS) and path not in _NO_PLACES:
            return f"{path.removeprefix(f'{ROOT}/')}:{line} {name}"
    return "outside of tests/"


def _cpu_s() -> tuple[float, float]:
    """Of this process, and of its children that have ended."""
    times = os.times()
    return times.user + times.system, times.children_user + times.children_system


class SlowestTests:
    """The plugin: in workers it measures, and where the summary is printed it collects what they say."""

    def __init__(self) -> None:
        self._watch: Watch | None = None
        self._costs: list[Cost] = []

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._watch = self._watch or Watch()
        self._watch.begin(item.nodeid)
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, call: pytest.CallInfo[None]) -> Iterator[None]:
        report: Any = yield
        if self._watch and report.when == "setup":
            self._watch.is_set_up()
        if self._watch and report.when == "teardown":
            cost = self._watch.end()
            if cost.seconds >= SLOW_S:
                report.cost = asdict(cost)  # xdist carries a report's attributes to the main process
        return report

    def pytest_runtest_logreport(self, report: Any) -> None:
        if cost := getattr(report, "cost", None):
            self._costs.append(Cost(**cost))

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if not self._costs:
            return
        terminalreporter.section("slowest tests: time, CPU of their own + of children that ended, where they were")
        for cost in sorted(self._costs, key=lambda cost: -cost.seconds)[:SHOWN]:
            terminalreporter.write_line(cost.line())
        seconds = sum(cost.seconds for cost in self._costs)
        cpu_s = sum(cost.own_cpu_s + cost.children_cpu_s for cost in self._costs)
        terminalreporter.write_line(f"{len(self._costs)} tests of {SLOW_S} s or more: {seconds:.0f} s, CPU {cpu_s:.0f} s")

    def pytest_sessionfinish(self) -> None:
        if self._watch:
            self._watch.close()
            self._watch = None
