"""Jobs in child processes: they answer, fail, report, are cancelled, and never outlive their parent."""

import asyncio
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from libs.runtime.children import LENGTH, ChildDied, ChildProcesses, Children, ChildStalled, Report
from tests.runtime.child_jobs import add_one, die, echo, niceness, refuse, stay, wait_for
from tests.support.inline_children import InlineChildren
from tests.support.polling import until


def _is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("make", [InlineChildren, lambda: ChildProcesses("test", 1)], ids=["in place", "in a process"])
def test_a_job_reports_answers_and_raises(make: Callable[[], Children]) -> None:
    async def main() -> None:
        children = make()
        progress: list[object] = []
        answer, _ = await children.run(add_one, 4, progress.append)
        assert (answer, progress) == (5, [40])
        with pytest.raises(ValueError, match="no"):
            await children.run(refuse, "no")
        assert (await children.run(add_one, 5))[0] == 6
        children.close()

    asyncio.run(main())


def test_a_child_is_kept_and_jobs_wait_for_it_in_their_order() -> None:
    async def main() -> None:
        children = ChildProcesses("test", 1)
        answers = await asyncio.gather(*[children.run(add_one, number) for number in range(20)])
        assert [answer for answer, _ in answers] == list(range(1, 21))
        assert len({pid for _, pid in answers}) == 1
        children.close()

    asyncio.run(main())


def test_large_arguments_and_answers_travel_whole() -> None:
    async def main() -> None:
        children = ChildProcesses("test", 2)
        blob = os.urandom(5_000_000)
        assert await asyncio.gather(children.run(echo, blob), children.run(echo, blob)) == [blob, blob]
        children.close()

    asyncio.run(main())


def test_a_child_that_dies_fails_its_job_only() -> None:
    async def main() -> None:
        children = ChildProcesses("test", 1)
        killed = children.run(die, 0)
        after = children.run(add_one, 1)
        with pytest.raises(ChildDied):
            await killed
        assert (await after)[0] == 2
        children.close()

    asyncio.run(main())


def stop_after_a_while(argument: int, report: Report) -> None:
    for number in range(argument):
        report(number)
        time.sleep(0.1)
    os.kill(os.getpid(), signal.SIGSTOP)


def test_a_child_that_tells_of_no_progress_is_killed_and_the_next_job_gets_another() -> None:
    async def main() -> None:
        children = ChildProcesses("test", 1)
        progress: list[object] = []
        await children.run(add_one, 1)  # it has begun
        hung = children.run(stop_after_a_while, 40, progress.append, quiet_s=3)
        after = children.run(add_one, 1, quiet_s=60)
        with pytest.raises(ChildStalled, match=r"no progress for 3 s"):
            await hung
        assert progress == list(range(40))  # so it ran for longer than it may be silent
        assert (await after)[0] == 2
        children.close()

    asyncio.run(main())


def test_a_cancelled_job_ends_at_once_and_the_next_one_runs(tmp_path: Path) -> None:
    async def main() -> None:
        children = ChildProcesses("test", 1)
        path = tmp_path / "pid"
        job = children.run(stay, str(path))
        await until(lambda: path.exists() and path.read_text(encoding="utf-8") != "")
        pid = int(path.read_text(encoding="utf-8"))
        job.cancel()
        await until(lambda: not _is_running(pid))
        assert (await children.run(add_one, 1))[0] == 2
        children.close()

    asyncio.run(main())


def test_a_child_that_its_disk_does_not_let_go_holds_up_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A killed process remains while the kernel waits for a disk on its behalf, and its last write may still happen."""
    let_go, started = threading.Event(), threading.Event()
    wait = subprocess.Popen.wait

    def wait_long(process: "subprocess.Popen[bytes]", timeout: float | None = None) -> int:
        started.set()
        assert let_go.wait(60)
        return wait(process, timeout)

    async def main() -> None:
        children = ChildProcesses("test", 1)
        killed, path = children.run(die, 0), tmp_path / "pid"
        monkeypatch.setattr(subprocess.Popen, "wait", wait_long)
        await until(started.is_set)
        after = children.run(stay, str(path))
        assert not killed.done()
        let_go.set()
        with pytest.raises(ChildDied):
            await asyncio.wait_for(killed, 60)
        await until(lambda: path.exists() and path.read_text(encoding="utf-8") != "")
        let_go.clear()
        started.clear()
        children.close()
        await until(started.is_set)
        assert not after.done()
        let_go.set()
        with pytest.raises(ChildDied):
            await asyncio.wait_for(after, 60)

    asyncio.run(main())


@pytest.mark.parametrize("leaves_unread", [False, True], ids=["answering", "between jobs"])
def test_a_child_whose_parent_is_gone_ends_without_complaint(tmp_path: Path, *, leaves_unread: bool) -> None:
    """The kernel closes the sockets of a killed parent before it kills the children."""
    ours, theirs = socket.socketpair()
    began, go_on = tmp_path / "began", tmp_path / "go on"
    command = [sys.executable, "-m", "libs.runtime.child", str(theirs.fileno()), "0", "test", "{}"]
    child = subprocess.Popen(command, pass_fds=(theirs.fileno(),), stderr=subprocess.PIPE)
    theirs.close()
    job = (add_one, 1) if leaves_unread else (wait_for, (str(began), str(go_on)))
    message = pickle.dumps(job)
    ours.sendall(LENGTH.pack(len(message)) + message)
    if leaves_unread:
        assert ours.recv(1)
    else:
        while not began.exists():
            assert child.poll() is None
    ours.close()
    go_on.touch()
    _, complaint = child.communicate(timeout=60)
    assert (child.returncode, complaint) == (0, b"")


def test_close_ends_what_runs_and_cancels_what_waits(tmp_path: Path) -> None:
    async def main() -> None:
        children = ChildProcesses("test", 1)
        path = tmp_path / "pid"
        running, waiting = children.run(stay, str(path)), children.run(add_one, 1)
        await until(lambda: path.exists() and path.read_text(encoding="utf-8") != "")
        children.close()
        assert waiting.cancelled()
        with pytest.raises(ChildDied):
            await running
        assert not _is_running(int(path.read_text(encoding="utf-8")))
        assert children.run(add_one, 1).cancelled()

    asyncio.run(main())


def test_children_are_as_nice_as_was_asked() -> None:
    async def main() -> None:
        children = ChildProcesses("test", 1, nice=7)
        assert await children.run(niceness, None) == os.nice(0) + 7
        children.close()

    asyncio.run(main())


def test_children_do_not_outlive_a_parent_that_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "pid"
    program = (
        "import asyncio\n"
        "from libs.runtime.children import ChildProcesses\n"
        "from tests.runtime.child_jobs import stay\n"
        "async def main():\n"
        f"    await ChildProcesses('test', 1).run(stay, {str(path)!r})\n"
        "asyncio.run(main())\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", program])
    try:
        deadline = time.monotonic() + 60
        while not (path.exists() and path.read_text(encoding="utf-8")):
            assert time.monotonic() < deadline
        child = int(path.read_text(encoding="utf-8"))
    finally:
        parent.kill()
        parent.wait()
    while _is_running(child):
        assert time.monotonic() < deadline
