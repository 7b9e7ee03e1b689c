"""`/debug/profile` of an admin port: a profile of a process that is busy, and its refusals."""

import asyncio
import hashlib
import re
import signal
import threading
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from xml.etree import ElementTree

import aiohttp
import pytest

from libs.cluster.health import health_of
from libs.cluster.image import ClusterImage
from libs.runtime.admin import AdminServer
from libs.telemetry.metrics import Metrics
from tests.support.polling import until

SVG = "{http://www.w3.org/2000/svg}"


def timer_runs() -> bool:
    return signal.getitimer(signal.ITIMER_PROF)[1] > 0.0


def hot(rounds: int) -> int:
    total = 0
    for number in range(rounds):
        total += number * number
    return total


def cool(rounds: int) -> int:
    return sum(number for number in range(rounds))


def hashes(stopped: threading.Event) -> None:
    block = bytes(1 << 20)
    while not stopped.is_set():
        hashlib.sha256(block).digest()


@pytest.fixture
async def url() -> AsyncIterator[str]:
    admin = AdminServer(
        "127.0.0.1", 0, ready=lambda: (True, ""), health=lambda: health_of(ClusterImage()), metrics=Metrics("test")
    )
    await admin.start()
    yield f"http://127.0.0.1:{admin.port}/debug/profile"
    await admin.close()


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


@pytest.fixture
def hashing() -> Iterator[None]:
    """Work of another thread, which holds no lock of the interpreter."""
    stopped = threading.Event()
    with ThreadPoolExecutor(1, thread_name_prefix="a thread; of the test") as executor:
        executor.submit(hashes, stopped)
        yield
        stopped.set()


async def get(session: aiohttp.ClientSession, url: str) -> tuple[int, str, str]:
    async with session.get(url) as response:
        return response.status, response.content_type, await response.text()


async def busily(session: aiohttp.ClientSession, url: str) -> tuple[int, str, str]:
    """The answer to a request. Until it comes, the loop is busy in `hot`, and a little in `cool`."""
    answer = asyncio.create_task(get(session, url))
    while not answer.done():
        hot(20_000)
        cool(2_000)
        await asyncio.sleep(0)
    return await answer


def times_of(collapsed: str) -> dict[tuple[str, ...], int]:
    """Microseconds by stack."""
    lines = [line.rpartition(" ") for line in collapsed.splitlines()]
    return {tuple(stack.split(";")): int(us) for stack, _, us in lines}


async def test_collapsed_stacks_name_the_hot_function_and_who_called_it(session: aiohttp.ClientSession, url: str) -> None:
    used = time.process_time()
    status, content_type, text = await busily(session, f"{url}?seconds=1&format=collapsed")
    used_us = (time.process_time() - used) * 1e6
    assert (status, content_type) == (200, "text/plain")
    times = times_of(text)
    in_all = sum(times.values())
    in_hot = {stack: us for stack, us in times.items() if stack[-1] == f"{__name__}:hot"}
    assert sum(in_hot.values()) > in_all / 2
    assert all(stack[0] == "event_loop" and f"{__name__}:busily" in stack for stack in in_hot)
    assert in_all > 0.3 * used_us, "the loop was busy for a second, or for what it got of it"


async def test_other_threads_are_seen_by_their_cpu_time(session: aiohttp.ClientSession, url: str, hashing: None) -> None:
    times = times_of((await get(session, f"{url}?seconds=1&format=collapsed"))[2])
    hashed = {stack: us for stack, us in times.items() if stack[0] == "a_thread,_of_the_test_0"}
    assert sum(hashed.values()) > sum(times.values()) / 2
    assert {stack[-1] for stack in hashed} <= {f"{__name__}:hashes", "threading:Event.is_set"}


async def test_the_flame_graph_is_an_image_with_the_hot_function_as_a_wide_box(session: aiohttp.ClientSession, url: str) -> None:
    status, content_type, text = await busily(session, f"{url}?seconds=1")
    assert (status, content_type) == (200, "image/svg+xml")
    image = ElementTree.fromstring(text)
    boxes = {box.findtext(f"{SVG}title", ""): float(box.attrib["data-w"]) for box in image.iter(f"{SVG}g")}
    ((title, width),) = ((title, width) for title, width in boxes.items() if title.startswith(f"{__name__}:hot:"))
    assert width > 600, "more than half of the picture"
    assert re.fullmatch(r".*:hot: [\d.]+ ms, [\d.]+%", title)


async def test_a_process_that_does_nothing_has_an_empty_picture(session: aiohttp.ClientSession, url: str) -> None:
    status, _, text = await get(session, f"{url}?seconds=1")
    assert status == 200
    assert ElementTree.fromstring(text).tag == f"{SVG}svg"


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("seconds=0", "seconds is '0'; expected a whole number from 1 to 60."),
        ("seconds=61", "seconds is '61'; expected a whole number from 1 to 60."),
        ("seconds=-1", "seconds is '-1'; expected a whole number from 1 to 60."),
        ("seconds=1.5", "seconds is '1.5'; expected a whole number from 1 to 60."),
        ("seconds=", "seconds is ''; expected a whole number from 1 to 60."),
        ("seconds=%D9%A3", "seconds is '٣'; expected a whole number from 1 to 60."),
        ("seconds=" + "9" * 5000, f"seconds is '{'9' * 64}'; expected a whole number from 1 to 60."),
        ("format=png", "format is 'png'; expected svg or collapsed."),
        ("second=5", "There is no parameter 'second': seconds and format are."),
        ("seconds=5&seconds=6", "A parameter is given twice."),
    ],
)
async def test_bad_parameters_are_refused_with_a_sentence(
    session: aiohttp.ClientSession, url: str, query: str, sentence: str
) -> None:
    assert await get(session, f"{url}?{query}") == (400, "text/plain", f"{sentence}\n")


async def test_one_profile_is_taken_at_a_time_and_nothing_is_left_of_it(session: aiohttp.ClientSession, url: str) -> None:
    first = asyncio.create_task(get(session, f"{url}?seconds=60"))
    await until(timer_runs)
    status, _, text = await get(session, url)
    assert (status, text) == (409, "Another profile is being taken; ask again when it is done.\n")
    first.cancel()  # its client goes away, and so it ends
    await until(lambda: not timer_runs())
    assert signal.getsignal(signal.SIGPROF) is signal.SIG_IGN
    status, _, text = await busily(session, f"{url}?seconds=1&format=collapsed")
    assert (status, f"{__name__}:hot" in text) == (200, True)


async def test_a_stop_ends_a_profile(session: aiohttp.ClientSession) -> None:
    admin = AdminServer(
        "127.0.0.1", 0, ready=lambda: (True, ""), health=lambda: health_of(ClusterImage()), metrics=Metrics("test")
    )
    await admin.start()
    asking = asyncio.create_task(get(session, f"http://127.0.0.1:{admin.port}/debug/profile?seconds=60"))
    await until(timer_runs)
    await admin.close()
    assert not timer_runs()
    with pytest.raises(aiohttp.ClientError):
        await asking
