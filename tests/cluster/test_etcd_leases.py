"""Renewals of leases over one lasting stream, with a real etcd: one that hangs, dies, comes back, or asks for certificates."""

import asyncio
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, cast
from urllib.request import urlopen

import grpc
import pytest

from libs.cluster.etcd.etcd_connection import Endpoint, EtcdError
from libs.cluster.etcd.etcd_leases import LeaseRenewals
from libs.cluster.etcd.etcd_store import EtcdStore
from libs.cluster.etcd.etcd_stubs import LeaseKeepAliveRequest, LeaseKeepAliveResponse
from libs.cluster.etcd.etcd_tls import EtcdTls, TlsFiles
from libs.cluster.lease import grant
from libs.cluster.measured_store import MeasuredStore
from libs.cluster.store import Put, StoreUnavailable
from tests.cluster.conftest import EtcdServer, LossyProxy
from tests.support.certificates import make_authority
from tests.support.polling import rounds, until

TIMEOUT_S = 20.0
"""The machine may be busy."""
TTL_S = 60
STARTED = re.compile(r'^grpc_server_started_total\{grpc_method="LeaseKeepAlive".*\} (\S+)$', re.MULTILINE)


async def streams_of(server: EtcdServer, tls: ssl.SSLContext | None = None) -> int:
    """How many LeaseKeepAlive streams the server has accepted since it was started."""

    def read() -> str:
        with urlopen(f"{'https' if tls else 'http'}://{server.endpoint}/metrics", timeout=TIMEOUT_S, context=tls) as answer:
            return str(answer.read(), encoding="utf-8")

    found = STARTED.search(await asyncio.to_thread(read))
    return int(float(found[1])) if found else 0


async def answered(ask: Callable[[], Awaitable[int]], what: str) -> int:
    """The first answer, once the server is there."""
    for _ in rounds(what):
        try:
            return await ask()
        except StoreUnavailable:
            continue
    raise AssertionError


async def granted(store: EtcdStore) -> int:
    """A lease."""
    return await answered(lambda: store.grant_lease(TTL_S), "a lease")


async def renewed(store: EtcdStore, lease: int) -> int:
    """What a renewal says."""
    return await answered(lambda: store.keep_alive(lease), "a renewal")


async def is_absent(store: EtcdStore, key: str) -> bool:
    return await store.get(key) is None


async def asked(proxy: LossyProxy, before: int) -> None:
    """Returns once a request lies in the server's socket, which was not there when the proxy had passed on `before` bytes."""
    await until(lambda: proxy.requested > before)


class NotedStore(MeasuredStore):
    """It notes the deadlines on which the holder of a lease may rely."""

    def __init__(self, store: EtcdStore) -> None:
        super().__init__(store, asyncio.get_running_loop().time)
        self.deadlines: list[float] = []

    async def grant_lease(self, ttl_s: int) -> int:
        self.deadlines.append(asyncio.get_running_loop().time() + ttl_s)
        return await super().grant_lease(ttl_s)

    async def keep_alive(self, lease: int) -> int:
        sent = asyncio.get_running_loop().time()
        remaining = await super().keep_alive(lease)
        self.deadlines.append(sent + remaining)
        return remaining


@pytest.fixture
async def proxy(own_etcd: EtcdServer) -> AsyncIterator[LossyProxy]:
    proxy = own_etcd.proxy()
    await proxy.start()
    yield proxy
    await proxy.close()


@pytest.fixture
async def store(proxy: LossyProxy) -> AsyncIterator[EtcdStore]:
    store = EtcdStore([proxy.endpoint], timeout_s=TIMEOUT_S)
    yield store
    await store.close()


async def test_all_leases_of_a_process_share_one_stream(own_etcd: EtcdServer, store: EtcdStore) -> None:
    leases = [await granted(store) for _ in range(5)]
    for _ in range(3):
        assert await asyncio.gather(*[store.keep_alive(lease) for lease in leases]) == [TTL_S] * 5
        assert await asyncio.gather(*[store.keep_alive(leases[0]) for _ in range(5)]) == [TTL_S] * 5
    assert await streams_of(own_etcd) == 1


async def test_a_lease_that_is_gone_is_told_by_a_stream_that_goes_on_for_the_others(
    own_etcd: EtcdServer, store: EtcdStore
) -> None:
    revoked, other, short = await granted(store), await granted(store), await store.grant_lease(1)
    await store.revoke_lease(revoked)
    assert await asyncio.gather(*[store.keep_alive(lease) for lease in (other, revoked, other)]) == [TTL_S, 0, TTL_S]
    await store.txn([], [Put("/expires", b"", short)])
    await until(lambda: is_absent(store, "/expires"))
    assert [await store.keep_alive(lease) for lease in (short, revoked, other)] == [0, 0, TTL_S]
    assert await streams_of(own_etcd) == 1


async def test_leases_outlive_a_restart_of_the_server(own_etcd: EtcdServer, store: EtcdStore) -> None:
    first, second = await granted(store), await granted(store)
    assert await store.keep_alive(first) == TTL_S
    own_etcd.stop()
    own_etcd.start()
    assert await asyncio.gather(store.keep_alive(first), store.keep_alive(second)) == [TTL_S, TTL_S]
    assert await store.keep_alive(first) == TTL_S
    assert await streams_of(own_etcd) == 1


async def test_a_renewal_under_way_when_the_server_dies_is_made_again(
    own_etcd: EtcdServer, store: EtcdStore, proxy: LossyProxy
) -> None:
    leases = [await granted(store) for _ in range(2)]
    await asyncio.gather(*[store.keep_alive(lease) for lease in leases])
    own_etcd.pause()
    before = proxy.requested
    renewing = [asyncio.ensure_future(store.keep_alive(lease)) for lease in leases]
    await asked(proxy, before)
    own_etcd.stop()
    assert not any(each.done() for each in renewing)
    own_etcd.start()
    assert await asyncio.gather(*renewing) == [TTL_S, TTL_S]


async def test_a_server_that_hangs_fails_a_renewal_in_time_and_answers_the_next_on_another_stream(own_etcd: EtcdServer) -> None:
    store = EtcdStore([own_etcd.endpoint], timeout_s=0.5)
    lease = await granted(store)
    assert await renewed(store, lease) == TTL_S
    before = await streams_of(own_etcd)
    own_etcd.pause()
    loop = asyncio.get_running_loop()
    began = loop.time()
    with pytest.raises(StoreUnavailable, match="DEADLINE_EXCEEDED"):
        await store.keep_alive(lease)
    assert 0.45 < loop.time() - began < 5
    own_etcd.resume()
    assert await renewed(store, lease) == TTL_S
    assert await streams_of(own_etcd) > before
    await store.close()


async def test_who_gives_up_costs_others_only_another_try(own_etcd: EtcdServer, store: EtcdStore, proxy: LossyProxy) -> None:
    first, second = await granted(store), await granted(store)
    assert await store.keep_alive(first) == TTL_S
    own_etcd.pause()
    given_up, patient = asyncio.ensure_future(store.keep_alive(first)), asyncio.ensure_future(store.keep_alive(second))
    await asked(proxy, proxy.requested)
    given_up.cancel()
    with pytest.raises(asyncio.CancelledError):
        await given_up
    own_etcd.resume()
    assert await patient == TTL_S
    assert await store.keep_alive(first) == TTL_S


@pytest.mark.parametrize("renewals", [0, 1])
async def test_a_hanging_server_takes_a_lease_at_its_deadline_and_not_before(
    own_etcd: EtcdServer, store: EtcdStore, renewals: int
) -> None:
    await granted(store)
    loop, lost, noted = asyncio.get_running_loop(), asyncio.Event(), NotedStore(store)
    await grant(noted, 3, lambda _: lost.set())
    await until(lambda: len(noted.deadlines) == 1 + renewals)
    own_etcd.pause()
    await asyncio.wait_for(lost.wait(), TIMEOUT_S)
    assert 0 <= loop.time() - noted.deadlines[-1] < 1
    own_etcd.resume()


async def test_a_member_that_falls_silent_is_left_before_it_costs_a_lease(
    own_etcd: EtcdServer, store: EtcdStore, proxy: LossyProxy
) -> None:
    await granted(store)
    of_two, before = EtcdStore([proxy.endpoint, own_etcd.endpoint]), proxy.requested
    noted, lost = NotedStore(of_two), asyncio.Event()
    lease = await grant(noted, 6, lambda _: lost.set())
    assert proxy.requested > before, "the member that will fall silent is the one that is asked"
    proxy.swallow_requests = proxy.swallow_replies = True
    await until(lambda: len(noted.deadlines) == 4 or lost.is_set())
    assert lease.held
    lease.stop()
    await of_two.close()


async def test_renewals_go_on_with_a_new_certificate(etcd_binary: str, tmp_path: Any) -> None:
    authority = make_authority(tmp_path / "certificates")
    server = EtcdServer(etcd_binary, tmp_path, authority)
    server.start()
    own = authority.sign("anybody", "/CN=anybody")
    tls = EtcdTls(TlsFiles(str(authority.certificate), str(own), str(own)))
    scraping = ssl.create_default_context(cafile=str(authority.certificate))
    scraping.load_cert_chain(own)
    proxy = server.proxy()
    await proxy.start()
    store = EtcdStore([proxy.endpoint], tls=tls, timeout_s=TIMEOUT_S)
    try:
        lease = await granted(store)
        assert [await store.keep_alive(lease) for _ in range(3)] == [TTL_S] * 3
        server.pause()
        renewing = asyncio.ensure_future(store.keep_alive(lease))
        await asked(proxy, proxy.requested)
        own.write_bytes(authority.sign("somebody", "/CN=somebody").read_bytes())
        await tls.look()
        server.resume()
        assert [await store.keep_alive(lease) for _ in range(3)] == [TTL_S] * 3
        assert await renewing == TTL_S
        assert await streams_of(server, scraping) == 2
    finally:
        await store.close()
        await proxy.close()
        server.close()


async def test_closing_the_store_ends_a_renewal_with_an_error_and_leaves_nothing_behind(
    own_etcd: EtcdServer, store: EtcdStore, proxy: LossyProxy
) -> None:
    lease = await granted(store)
    await store.keep_alive(lease)
    own_etcd.pause()
    renewing = asyncio.ensure_future(store.keep_alive(lease))
    await asked(proxy, proxy.requested)
    await store.close()
    with pytest.raises(StoreUnavailable):
        await renewing
    assert not [each for each in asyncio.all_tasks() if each.get_name() == "renewals of leases"]
    own_etcd.resume()


class ScriptedStream:
    """A LeaseKeepAlive call whose server answers when a test says so."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.answers: asyncio.Queue[Any] = asyncio.Queue()
        self.cancelled = False

    async def write(self, request: LeaseKeepAliveRequest) -> None:
        self.asked.append(request.ID)

    async def read(self) -> Any:
        return await self.answers.get()

    def cancel(self) -> None:
        self.cancelled = True

    def answer(self, lease: int, ttl_s: int) -> None:
        self.answers.put_nowait(LeaseKeepAliveResponse(ID=lease, TTL=ttl_s))


class ScriptedEndpoint:
    def __init__(self) -> None:
        self.streams: list[ScriptedStream] = []

    def lease_keep_alive(self) -> ScriptedStream:
        self.streams.append(ScriptedStream())
        return self.streams[-1]

    async def asked(self, *leases: int) -> ScriptedStream:
        """Returns the last stream once it was asked for these leases."""
        await until(lambda: self.streams and self.streams[-1].asked == list(leases))
        return self.streams[-1]


def renew(renewals: LeaseRenewals, endpoint: ScriptedEndpoint, lease: int, timeout_s: float = 5.0) -> asyncio.Future[int]:
    return asyncio.ensure_future(renewals.renew(cast(Endpoint, endpoint), lease, timeout_s))


async def test_answers_reach_those_who_asked_in_whichever_order_leases_are_answered() -> None:
    renewals, endpoint = LeaseRenewals(), ScriptedEndpoint()
    asking = [renew(renewals, endpoint, lease) for lease in (7, 8, 7)]
    stream = await endpoint.asked(7, 8, 7)
    for lease, ttl_s in ((8, 80), (7, 70), (7, 71)):
        stream.answer(lease, ttl_s)
    assert await asyncio.gather(*asking) == [70, 80, 71]
    await renewals.close()


async def test_a_late_answer_is_not_the_answer_to_the_next_renewal() -> None:
    renewals, endpoint = LeaseRenewals(), ScriptedEndpoint()
    given_up = renew(renewals, endpoint, 7, timeout_s=0.01)
    late = await endpoint.asked(7)
    with pytest.raises(EtcdError, match="DEADLINE_EXCEEDED"):
        await given_up
    assert late.cancelled
    again = renew(renewals, endpoint, 7)
    await until(lambda: len(endpoint.streams) == 2)
    stream = await endpoint.asked(7)
    late.answer(7, 70)
    stream.answer(7, 71)
    assert await again == 71
    await renewals.close()


async def test_a_renewal_that_is_given_up_as_its_answer_arrives_does_not_break_the_reader() -> None:
    renewals, endpoint = LeaseRenewals(), ScriptedEndpoint()
    given_up = renew(renewals, endpoint, 7)
    stream = await endpoint.asked(7)
    stream.answer(7, 70)
    given_up.cancel()
    with pytest.raises(asyncio.CancelledError):
        await given_up
    again = renew(renewals, endpoint, 7)
    await until(lambda: len(endpoint.streams) == 2)
    (await endpoint.asked(7)).answer(7, 71)
    assert await again == 71
    await renewals.close()


async def test_an_answer_that_nobody_asked_for_ends_the_stream() -> None:
    renewals, endpoint = LeaseRenewals(), ScriptedEndpoint()
    asking = renew(renewals, endpoint, 7)
    (await endpoint.asked(7)).answer(8, 80)
    with pytest.raises(EtcdError, match="nobody had asked") as raised:
        await asking
    assert raised.value.code is grpc.StatusCode.INTERNAL
    await renewals.close()


async def test_a_stream_of_a_former_endpoint_ends_when_its_last_renewal_is_answered() -> None:
    renewals, former, present = LeaseRenewals(), ScriptedEndpoint(), ScriptedEndpoint()
    waiting = [renew(renewals, former, lease) for lease in (7, 8)]
    old = await former.asked(7, 8)
    asking = renew(renewals, present, 7)
    (await present.asked(7)).answer(7, 71)
    assert await asking == 71
    old.answer(8, 80)
    assert await waiting[1] == 80
    assert not old.cancelled
    old.answer(7, 70)
    assert await waiting[0] == 70
    assert old.cancelled
    await renewals.close()
