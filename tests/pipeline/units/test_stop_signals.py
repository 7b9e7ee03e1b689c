"""What SIGTERM and Ctrl-C do to jobs. The signals are real, the jobs are not."""

import os
import signal
import threading
from collections.abc import Iterator

import pytest

from services.pipeline.jobs.stopping import ONE_SIGNAL_S, SIGNALS, StopSignals


class Job:
    def __init__(self) -> None:
        self.stopped_in: list[str] = []

    def stop(self) -> None:
        self.stopped_in.append(threading.current_thread().name)


@pytest.fixture(autouse=True)
def former_handlers() -> Iterator[None]:
    former = {number: signal.getsignal(number) for number in SIGNALS}
    yield
    for number, handler in former.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_stops_each_job_in_another_thread_and_then_cancels_their_work(number: signal.Signals) -> None:
    jobs, cancelled = [Job(), Job()], []
    signals = StopSignals(lambda: cancelled.append([job.stopped_in for job in jobs]))
    signals.listen()
    for job in jobs:
        signals.add(job)
    os.kill(os.getpid(), number)
    signals.wait_until_stopped()
    assert signals.received is number
    assert cancelled == [[["stop"], ["stop"]]]


def test_a_job_that_starts_after_the_signal_is_stopped_at_once() -> None:
    signals, late = StopSignals(lambda: None), Job()
    signals.listen()
    os.kill(os.getpid(), signal.SIGTERM)
    signals.wait_until_stopped()
    signals.add(late)
    assert late.stopped_in == [threading.current_thread().name]


def test_a_second_signal_ends_the_process() -> None:
    child = os.fork()
    if child == 0:
        hangs = threading.Event()
        times_s = iter([0.0, ONE_SIGNAL_S])
        signals = StopSignals(lambda: None, clock=lambda: next(times_s))
        signals.listen()
        signals.add(type("Hanging", (), {"stop": staticmethod(hangs.wait)})())
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGTERM)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 128 + signal.SIGTERM


def test_a_signal_that_comes_twice_at_once_stops_the_jobs_once() -> None:
    """As `timeout` sends it: to the process, and to the process group."""
    signals, job, released = StopSignals(lambda: None), Job(), threading.Event()
    signals.listen()
    signals.add(type("Slow", (), {"stop": staticmethod(released.wait)})())
    signals.add(job)
    os.kill(os.getpid(), signal.SIGTERM)
    os.kill(os.getpid(), signal.SIGTERM)
    released.set()
    signals.wait_until_stopped()
    assert job.stopped_in == ["stop"]


def test_a_job_that_cannot_be_stopped_leaves_the_others_their_stop(caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> None:
        raise ConnectionError("the JVM is gone")

    signals, job = StopSignals(lambda: None), Job()
    signals.listen()
    signals.add(type("Gone", (), {"stop": staticmethod(fail)})())
    signals.add(job)
    os.kill(os.getpid(), signal.SIGTERM)
    signals.wait_until_stopped()
    assert job.stopped_in == ["stop"]
    assert "the JVM is gone" in caplog.text


def test_without_a_signal_there_is_nothing_to_wait_for() -> None:
    signals = StopSignals(lambda: None)
    signals.wait_until_stopped()
    assert not signals.has_come(0.0)
