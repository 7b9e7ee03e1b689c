"""Start, drain, exit."""

import asyncio
import errno
import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from libs.runtime.lifecycle import ABORTED, CannotRun, Lifecycle, Stops, supervise
from libs.telemetry.logs import LineFormatter


def closer(done: list[str], name: str) -> Callable[[], Coroutine[Any, Any, None]]:
    async def close() -> None:
        done.append(name)

    return close


async def test_opened_resources_are_closed_in_reverse_order() -> None:
    done: list[str] = []
    lifecycle = Lifecycle()

    async def main(given: Lifecycle) -> None:
        for name in ("store", "server", "port"):
            given.on_stop(closer(done, name))
        given.stop()

    assert await supervise(main, lifecycle) == 0
    assert done == ["port", "server", "store"]


async def test_a_process_whose_main_returns_goes_on_until_sigterm() -> None:
    lifecycle = Lifecycle()

    async def main(given: Lifecycle) -> None:
        pass

    running = asyncio.create_task(supervise(main, lifecycle))
    await asyncio.sleep(0.01)
    assert not running.done()
    lifecycle.stop()
    assert await running == 0


async def test_a_main_that_runs_is_cancelled_before_draining() -> None:
    done: list[str] = []
    lifecycle = Lifecycle()

    async def main(given: Lifecycle) -> None:
        given.on_stop(closer(done, "closed"))
        try:
            await asyncio.Event().wait()
        finally:
            done.append("cancelled")

    running = asyncio.create_task(supervise(main, lifecycle))
    await asyncio.sleep(0.01)
    lifecycle.stop()
    assert await running == 0
    assert done == ["cancelled", "closed"]


async def test_a_process_with_impossible_settings_says_what_to_mend_without_a_traceback(caplog: pytest.LogCaptureFixture) -> None:
    async def main(given: Lifecycle) -> None:
        raise CannotRun("log directory belongs to another node", path="/data") from KeyError("why")

    assert await supervise(main, Lifecycle()) == 1
    [line] = [LineFormatter("storage", "storage-1").format(record) for record in caplog.records]
    assert line.endswith(' event="log directory belongs to another node" path=/data')


async def test_a_start_that_the_host_refuses_is_one_sentence_and_another_one_has_its_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main(given: Lifecycle) -> None:
        raise errors.pop()

    errors = [OSError(errno.EBADF, "Bad file descriptor"), PermissionError(errno.EACCES, "Permission denied", "/data")]
    assert await supervise(main, Lifecycle()) == 1
    assert await supervise(main, Lifecycle()) == 1
    sentence, traced = [LineFormatter("storage", "storage-1").format(record) for record in caplog.records]
    assert ' event="stopping after a failure" error="PermissionError: [Errno 13] Permission denied: \'/data\'" at=' in sentence
    assert re.search(r"at=\S*/test_lifecycle\.py:\d+$", sentence)
    assert "Traceback" in traced


@pytest.mark.parametrize("running", [True, False], ids=["main has returned", "main still starts"])
async def test_an_error_of_the_host_in_a_process_that_runs_keeps_its_traceback(
    caplog: pytest.LogCaptureFixture, running: bool
) -> None:
    async def fail(lifecycle: Lifecycle) -> None:
        try:
            raise PermissionError(errno.EACCES, "Permission denied", "/data")
        except PermissionError as error:
            lifecycle.stop(error)

    async def main(given: Lifecycle) -> None:
        failing = asyncio.create_task(fail(given))
        if not running:
            await asyncio.Event().wait()
        await failing

    assert await supervise(main, Lifecycle()) == 1
    [line] = [LineFormatter("storage", "storage-1").format(record) for record in caplog.records]
    assert "error=\"PermissionError: [Errno 13] Permission denied: '/data'\"" in line
    assert "Traceback" in line


async def test_a_start_that_fails_closes_what_was_open_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    done: list[str] = []

    async def main(given: Lifecycle) -> None:
        given.on_stop(closer(done, "store"))
        raise OSError("the port is taken")

    assert await supervise(main, Lifecycle()) == 1
    assert done == ["store"]
    assert "the port is taken" in caplog.text


async def test_a_failure_while_running_stops_the_process_with_an_error() -> None:
    lifecycle = Lifecycle()

    async def main(given: Lifecycle) -> None:
        given.stop(RuntimeError("the disk is gone"))
        given.stop(RuntimeError("and so is everything else"))

    assert await supervise(main, lifecycle) == 1
    assert str(lifecycle.failure) == "the disk is gone"


async def test_a_step_that_fails_or_hangs_does_not_keep_the_others_from_closing() -> None:
    done: list[str] = []
    lifecycle = Lifecycle()

    async def fail() -> None:
        raise ZeroDivisionError

    async def hang() -> None:
        await asyncio.Event().wait()

    for close in (closer(done, "first"), hang, closer(done, "second"), fail, closer(done, "third")):
        lifecycle.on_stop(close)
    assert not await lifecycle.drain(0.05)
    assert done == ["third", "second", "first"]


async def test_a_stop_that_hangs_and_is_given_up_leaves_the_earlier_ones_undone() -> None:
    """A process that drains for too long ends. It must not go on with what comes after the part that hangs."""
    done: list[str] = []
    stops, hangs = Stops(), asyncio.Event()

    async def hang() -> None:
        hangs.set()
        await asyncio.Event().wait()

    for stop in (closer(done, "first"), hang, lambda: done.append("third")):
        stops.add(stop)
    running = asyncio.create_task(stops.run())
    await hangs.wait()
    running.cancel()
    await asyncio.wait([running])
    assert running.cancelled()
    assert done == ["third"]


PROCESS = """
    import asyncio, sys
    from libs.runtime.lifecycle import run
    from libs.telemetry.logs import LogSettings, configure

    async def main(lifecycle):
        async def close():
            print("draining", flush=True)
            if "hang" in sys.argv:
                await asyncio.Event().wait()
            print("drained", flush=True)
        lifecycle.on_stop(close)
        print("up", flush=True)

    configure("test", "test-1", LogSettings())
    run(main)
"""


def start(*arguments: str) -> "subprocess.Popen[str]":
    code = textwrap.dedent(PROCESS)
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8"
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_drains_and_exits_with_0(number: int) -> None:
    with start() as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        process.send_signal(number)
        assert process.stdout.read() == "draining\ndrained\n"
        assert process.wait(60) == 0


def test_a_second_signal_aborts() -> None:
    with start("hang") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        process.terminate()
        assert process.stdout.readline() == "draining\n"
        process.terminate()
        assert process.wait(15) == ABORTED  # before draining would have ended


def test_a_process_that_starts_anew_is_executed_again_with_its_arguments_and_keeps_its_id(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    program = f"""
        import fcntl, os, sys
        from libs.runtime.lifecycle import StartAnew, run
        lock = open({str(lock)!r}, "w")
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        again = os.environ.get("AGAIN")
        os.environ["AGAIN"] = "yes"
        async def main(lifecycle):
            print(os.getpid(), sys._xoptions["penstock"], sys.argv[1:], again, flush=True)
            lifecycle.stop(None if again else StartAnew("the metadata store went back in time"))
        run(main)
    """
    command = [sys.executable, "-Xpenstock=name", "-c", textwrap.dedent(program), "argument"]
    ended = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=60, check=False)
    first, second = ended.stdout.splitlines()
    assert ended.returncode == 0, ended.stderr
    assert "starting anew" in ended.stderr
    assert first.replace("None", "yes") == second


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_process_that_is_about_to_start_anew(number: int) -> None:
    program = f"""
        import asyncio, os, signal
        from libs.runtime.lifecycle import StartAnew, run
        async def closing():
            os.kill(os.getpid(), {int(number)})
            await asyncio.sleep(0.2)
        async def main(lifecycle):
            print("started", flush=True)
            lifecycle.on_stop(closing)
            lifecycle.stop(StartAnew("again"))
        run(main)
    """
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, encoding="utf-8", timeout=60, check=False
    )
    assert (ended.returncode, ended.stdout) == (1, "started\n"), ended.stderr
