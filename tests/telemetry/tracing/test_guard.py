"""A failure in the code of traces is logged once a minute, and goes no further."""

import asyncio

import pytest

from libs.telemetry.tracing.guard import FAILURES_LOG_S, TraceGuard


def test_a_failure_is_logged_with_its_traceback_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    now = [100.0]
    guarded = TraceGuard(lambda: now[0])

    @guarded
    def make() -> None:
        raise ZeroDivisionError

    for _ in range(3):
        make()
    now[0] += FAILURES_LOG_S
    make()
    assert [record.message for record in caplog.records] == ["spans not made"] * 2
    assert [record.__dict__["fields"]["count"] for record in caplog.records] == [1, 3]
    assert all(record.exc_info and record.exc_info[0] is ZeroDivisionError for record in caplog.records)


@pytest.mark.parametrize("kind", [KeyboardInterrupt, asyncio.CancelledError])
def test_what_ends_a_process_or_a_task_goes_on(kind: type[BaseException], caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(kind), TraceGuard(lambda: 100.0):
        raise kind
    assert not caplog.records


def test_work_that_succeeds_is_done(caplog: pytest.LogCaptureFixture) -> None:
    with TraceGuard(lambda: 100.0):
        done = True
    assert done
    assert not caplog.records
