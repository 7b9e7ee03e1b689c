"""An etcd that demands certificates, and knows each role's user: everybody can do the own work, and nothing else."""

import asyncio
import logging
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from libs.cluster import keys
from libs.cluster.codec import encode
from libs.cluster.election import Election
from libs.cluster.etcd import etcd_connection, etcd_tls
from libs.cluster.etcd.access import ACCESS, NODE, ROOT, Access, access_digest, user_of
from libs.cluster.etcd.etcd_auth import EtcdAuth
from libs.cluster.etcd.etcd_connection import EtcdConnection, EtcdError, own_cancellation_only
from libs.cluster.etcd.etcd_store import EtcdStore
from libs.cluster.etcd.etcd_tls import EtcdTls, TlsFiles
from libs.cluster.membership import Membership
from libs.cluster.records import ElectedController, Member
from libs.cluster.scoped_watch import scoped_watch
from libs.cluster.store import Delete, MetadataStore, Outcome, Put, StoreUnavailable, WatchGap
from libs.pem_files import Unusable
from libs.roles import CONTROLLER, GATEWAY, QUOTA_MANAGER, ROLES, STORAGE
from libs.runtime.identity import own_version
from services.controller.etcd_users import __main__ as etcd_users
from tests.cluster.conftest import EtcdServer
from tests.support.certificates import Authority, make_authority
from tests.support.polling import rounds
from tests.support.printed_blocks import blocks_of, section_of
from tests.support.requirements import ROOT as REPOSITORY

TIMEOUT_S = 20.0
"""The machine may be busy."""

READERS = {
    keys.PREFIX: ROLES,
    keys.SCRAM: {CONTROLLER, GATEWAY},
    keys.VOLUME_STAMPS: {STORAGE},
    "/": set(),
}
WRITERS = {
    keys.topic("orders"): {CONTROLLER},
    keys.CLUSTER_ID: {CONTROLLER},
    keys.scram_credential("SCRAM-SHA-256", "alice"): {CONTROLLER},
    keys.SCRAM_SECRET: {CONTROLLER},
    keys.CONTROLLER: {CONTROLLER},
    keys.QUOTA_MANAGER: {CONTROLLER, QUOTA_MANAGER},
    keys.volume_stamp("a-directory"): {STORAGE},
    "/other": set(),
    **{keys.member(role, 7): {CONTROLLER, role} for role in ROLES},
}


class SecuredEtcd:
    def __init__(self, server: EtcdServer, authority: Authority) -> None:
        self.server, self.authority = server, authority
        self.endpoint = server.endpoint

    def tls(self, user: str) -> EtcdTls:
        keystore = self.authority.directory / f"{user}.pem"
        if not keystore.exists():
            self.authority.sign(user, f"/CN={user}")
        return EtcdTls(TlsFiles(str(self.authority.certificate), str(keystore), str(keystore)))

    @asynccontextmanager
    async def store(self, user: str, *, timeout_s: float = TIMEOUT_S) -> AsyncIterator[EtcdStore]:
        store = EtcdStore([self.endpoint], tls=self.tls(user), timeout_s=timeout_s)
        try:
            yield store
        finally:
            await store.close()

    async def set_up(self, by: str = ROOT) -> list[str]:
        told: list[str] = []
        connection = EtcdConnection([self.endpoint], self.tls(by), TIMEOUT_S)
        try:
            await EtcdAuth(connection).set_up(ACCESS, told.append)
        finally:
            await connection.close()
        return told


async def begin(etcd: SecuredEtcd) -> None:
    """Users and roles, and a key below each prefix."""
    await etcd.set_up(by="anybody")
    async with etcd.store(ROOT) as root:
        await root.txn([], [Put(f"{prefix}there", b"") for prefix in READERS])


@pytest.fixture(scope="module")
def secured(etcd_binary: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredEtcd]:
    folder = tmp_path_factory.mktemp("secured-etcd")
    authority = make_authority(folder / "certificates")
    server = EtcdServer(etcd_binary, folder, authority)
    server.start()
    etcd = SecuredEtcd(server, authority)
    asyncio.run(begin(etcd))
    yield etcd
    server.close()


async def allowed(attempt: Awaitable[Any]) -> bool:
    """False: etcd refused it, and nothing else went wrong."""
    try:
        await attempt
    except (StoreUnavailable, WatchGap) as refusal:
        if "permission denied" not in str(refusal):
            raise
        return False
    return True


async def watched(store: MetadataStore, prefix: str) -> None:
    """Returns once the watch of a prefix has told of the key that is there, or raises."""
    async with scoped_watch(store, prefix, 1) as batches:
        await asyncio.wait_for(anext(batches), TIMEOUT_S)


@pytest.mark.parametrize("role", sorted(ROLES))
async def test_each_role_reads_what_its_work_needs_and_nothing_else(secured: SecuredEtcd, role: str) -> None:
    async with secured.store(user_of(role)) as store:
        for prefix, readers in READERS.items():
            assert await allowed(store.range(prefix)) == (role in readers), prefix
            assert await allowed(watched(store, prefix)) == (role in readers), prefix


@pytest.mark.parametrize("role", sorted(ROLES))
async def test_each_role_writes_what_its_work_needs_and_nothing_else(secured: SecuredEtcd, role: str) -> None:
    async with secured.store(user_of(role)) as store, secured.store(ROOT) as root:
        for key, writers in WRITERS.items():
            outcome = (await store.txn([], [Put(key, role.encode())])).outcome
            assert outcome is (Outcome.OK if role in writers else Outcome.DENIED), key
            stored = await root.get(key)
            assert (stored is not None and stored.value == role.encode()) == (role in writers), key


@pytest.mark.parametrize("role", sorted(ROLES))
async def test_each_role_registers_and_leaves(secured: SecuredEtcd, role: str) -> None:
    async with secured.store(user_of(role)) as store:
        membership = Membership(store, Member(role, 1, 1, "host"), 5)
        await asyncio.wait_for(membership.start(), TIMEOUT_S)
        assert await store.get(keys.member(role, 1)) is not None
        await membership.close()
        assert await store.get(keys.member(role, 1)) is None, "it may revoke its own lease"


@pytest.mark.parametrize(("role", "key"), [(CONTROLLER, keys.CONTROLLER), (QUOTA_MANAGER, keys.QUOTA_MANAGER)])
async def test_who_is_elected_by_a_lease_is_so_with_a_user(secured: SecuredEtcd, role: str, key: str) -> None:
    async with secured.store(user_of(role)) as store, secured.store(ROOT) as root:
        await root.txn([], [Delete(key)])
        leadership = await asyncio.wait_for(Election(store, key, ElectedController(1, 1), 5).campaign(), TIMEOUT_S)
        assert leadership.valid
        await leadership.resign()
        assert await root.get(key) is None


async def test_a_lease_of_another_role_is_not_for_a_process_to_revoke(secured: SecuredEtcd) -> None:
    key = keys.member(STORAGE, 3)
    async with secured.store(user_of(STORAGE)) as storage, secured.store(user_of(GATEWAY)) as gateway:
        lease = await storage.grant_lease(60)
        await storage.txn([], [Put(key, b"", lease)])
        await gateway.revoke_lease(lease)
        assert await storage.get(key) is not None
        await storage.revoke_lease(lease)
        assert await storage.get(key) is None


async def test_a_transaction_whose_lease_is_gone_is_a_conflict_for_a_user_too(secured: SecuredEtcd) -> None:
    async with secured.store(user_of(STORAGE)) as store:
        lease = await store.grant_lease(60)
        await store.revoke_lease(lease)
        assert (await store.txn([], [Put(keys.member(STORAGE, 4), b"", lease)])).outcome is Outcome.CONFLICT


MORE = "/more/"
WIDER = {**ACCESS, GATEWAY: Access((MORE,), (keys.PREFIX, keys.SCRAM))}
"""What a former version might need: of three ranges the first is new, and the others may be written."""
LESS = [
    f"penstock-gateway loses what it might do below {MORE}",
    f"penstock-gateway may read below {keys.SCRAM}",
    f"penstock-gateway may read below {keys.PREFIX}",
]


async def gateway_may_do_more(secured: SecuredEtcd) -> bool:
    """All of what the wider table has and the other lacks; False: nothing of it."""
    async with secured.store(user_of(GATEWAY)) as store:
        writes = [(await store.txn([], [Put(key, b"")])).outcome is Outcome.OK for key in (keys.topic("t"), f"{keys.SCRAM}t")]
        (answer,) = {*writes, await allowed(store.range(MORE))}
        return answer


async def test_a_second_set_up_changes_nothing(secured: SecuredEtcd) -> None:
    assert await secured.set_up() == []


async def test_a_later_table_takes_nothing_away_until_it_is_asked_to(secured: SecuredEtcd) -> None:
    connection = EtcdConnection([secured.endpoint], secured.tls(ROOT), TIMEOUT_S)
    auth = EtcdAuth(connection)
    assert not await gateway_may_do_more(secured)
    await auth.set_up(WIDER, lambda line: None)
    assert await secured.set_up() == []
    assert await gateway_may_do_more(secured), "a process of the former version works on"
    told: list[str] = []
    await auth.revoke_unneeded(ACCESS, told.append)
    assert sorted(told) == LESS
    assert not await gateway_may_do_more(secured)
    await auth.revoke_unneeded(ACCESS, told.append)
    assert sorted(told) == LESS, "it may be repeated"
    await connection.close()


async def test_a_role_that_the_table_lacks_may_do_nothing_afterwards(secured: SecuredEtcd) -> None:
    connection = EtcdConnection([secured.endpoint], secured.tls(ROOT), TIMEOUT_S)
    auth = EtcdAuth(connection)
    await auth.set_up({**ACCESS, "archivist": ACCESS[GATEWAY]}, lambda line: None)
    async with secured.store(user_of("archivist")) as store:
        assert await allowed(store.range(keys.PREFIX))
        told: list[str] = []
        await auth.revoke_unneeded(ACCESS, told.append)
        assert told
        assert all(line.startswith("penstock-archivist loses what it might do below ") for line in told)
        assert not await allowed(store.range(keys.PREFIX))
    await connection.close()


async def test_a_crash_while_permissions_are_taken_away_leaves_what_the_table_has(secured: SecuredEtcd) -> None:
    connection = EtcdConnection([secured.endpoint], secured.tls(ROOT), TIMEOUT_S)
    auth = EtcdAuth(connection)
    for steps in range(1, len(LESS)):
        await auth.set_up(WIDER, lambda line: None)
        told: list[str] = []

        def crash(line: str, told: list[str] = told, steps: int = steps) -> None:
            told.append(line)
            if len(told) == steps:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            await auth.revoke_unneeded(ACCESS, crash)
        async with secured.store(user_of(GATEWAY)) as store:
            assert await allowed(store.range(keys.PREFIX))
            assert await allowed(store.range(keys.SCRAM))
            assert (await store.txn([], [Put(keys.member(GATEWAY, 7), b"")])).outcome is Outcome.OK
        await auth.revoke_unneeded(ACCESS, told.append)
        assert sorted(told) == LESS
    await connection.close()


@pytest.mark.parametrize(
    ("version", "table", "is_kept"),
    [
        ("0.0.9", "", "storage 3 (0.0.9)"),  # one from before processes told it
        (own_version(), "another", f"storage 3 ({own_version()}, another build)"),
        (own_version(), access_digest(), ""),
        ("9.9.9", access_digest(), ""),
    ],
)
def test_the_command_takes_nothing_away_while_a_process_may_need_it(
    secured: SecuredEtcd,
    version: str,
    table: str,
    is_kept: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def prepare() -> None:
        connection = EtcdConnection([secured.endpoint], secured.tls(ROOT), TIMEOUT_S)
        await EtcdAuth(connection).set_up(WIDER, lambda line: None)
        await connection.close()
        async with secured.store(ROOT) as root:
            await root.txn([], [Delete(keys.MEMBERS, prefix=True)])
            member = Member(STORAGE, 3, 1, "host", version=version, etcd_access=table)
            await root.txn([], [Put(keys.member(STORAGE, 3), encode(member))])

    asyncio.run(prepare())
    given_to_commands(secured, ROOT, monkeypatch)
    assert etcd_users.main(["set-up", "--etcd", secured.endpoint, "--revoke-unneeded"]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[-1].startswith("etcd serves users only: ")
    if is_kept:
        assert told[0].startswith("no permission is taken away, since processes are registered that may need others")
        assert f"{own_version()}: {is_kept}. It is taken away by the same step" in told[0]
    else:
        assert sorted(told[:-1]) == LESS
    assert asyncio.run(gateway_may_do_more(secured)) is bool(is_kept)
    asyncio.run(taken_back(secured))


async def taken_back(secured: SecuredEtcd) -> None:
    connection = EtcdConnection([secured.endpoint], secured.tls(ROOT), TIMEOUT_S)
    await EtcdAuth(connection).revoke_unneeded(ACCESS, lambda line: None)
    await connection.close()


def given_to_commands(secured: SecuredEtcd, user: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The variables by which a command is that user."""
    secured.tls(user)
    keystore = f"{secured.authority.directory}/{user}.pem"
    for name, file in {"CA": secured.authority.certificate, "CERT": keystore, "KEY": keystore}.items():
        monkeypatch.setenv(f"PENSTOCK_ETCD_{name}_FILE", str(file))


async def test_only_root_sets_users_up(secured: SecuredEtcd) -> None:
    with pytest.raises(EtcdError, match="permission denied"):
        await secured.set_up(by=user_of(CONTROLLER))


@pytest.mark.parametrize("user", ["nobody", "penstock-gateways"])
async def test_a_certificate_without_a_user_opens_nothing(
    secured: SecuredEtcd, user: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with secured.store(user) as store:
        for _ in range(2):
            assert not await allowed(store.get(keys.CLUSTER_ID))
        assert (await store.txn([], [Put(keys.CLUSTER_ID, b"")])).outcome is Outcome.DENIED
    (record,) = caplog.records  # thrice refused, told once
    assert record.message == "etcd refuses a call"
    assert "run the set-up of etcd's users" in record.__dict__["fields"]["remedy"]


async def test_a_certificate_without_a_name_opens_nothing(secured: SecuredEtcd) -> None:
    keystore = str(secured.authority.sign("nameless", "/O=Penstock"))
    store = EtcdStore([secured.endpoint], tls=EtcdTls(TlsFiles(str(secured.authority.certificate), keystore, keystore)))
    with pytest.raises(StoreUnavailable, match="PERMISSION_DENIED"):
        await store.get(keys.CLUSTER_ID)
    assert (await store.txn([], [Put(keys.CLUSTER_ID, b"")])).outcome is Outcome.DENIED
    await store.close()


async def test_nobody_is_served_without_a_certificate_or_without_tls(secured: SecuredEtcd) -> None:
    for tls in (EtcdTls(TlsFiles(str(secured.authority.certificate))), None):
        store = EtcdStore([secured.endpoint], tls=tls, timeout_s=1)
        with pytest.raises(StoreUnavailable):
            await store.grant_lease(5)
        await store.close()


async def test_an_etcd_that_another_authority_vouches_for_is_not_trusted(secured: SecuredEtcd, tmp_path: Path) -> None:
    other = make_authority(tmp_path)
    store = EtcdStore([secured.endpoint], tls=EtcdTls(TlsFiles(str(other.certificate))), timeout_s=1)
    with pytest.raises(StoreUnavailable, match=r"(?i)certificate.verify.failed"):
        await store.get("/a")
    await store.close()


async def test_new_files_take_effect_and_a_watch_goes_on(
    secured: SecuredEtcd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(etcd_connection, "FORMER_CERTIFICATE_S", 0.1)
    own, key = tmp_path / "own.pem", keys.member(GATEWAY, 8)
    secured.tls(user_of(STORAGE)), secured.tls(user_of(GATEWAY))
    shutil.copy(secured.authority.directory / f"{user_of(STORAGE)}.pem", own)
    tls = EtcdTls(TlsFiles(str(secured.authority.certificate), str(own), str(own)))
    store = EtcdStore([secured.endpoint], tls=tls, timeout_s=TIMEOUT_S)
    assert (await store.txn([], [Put(key, b"1")])).outcome is Outcome.DENIED
    start = (await store.range(keys.PREFIX)).revision + 1
    async with scoped_watch(store, keys.PREFIX, start) as batches:
        next_batch = asyncio.ensure_future(anext(batches))
        own.write_bytes(b"half a file")
        await tls.look()
        assert "new certificate for etcd not used" in caplog.text
        assert (await store.range(keys.PREFIX)).revision + 1 == start, "the former one is in force"
        shutil.copy(secured.authority.directory / f"{user_of(GATEWAY)}.pem", own)
        await tls.look()
        assert (await store.txn([], [Put(key, b"2")])).outcome is Outcome.OK
        seen = await asyncio.wait_for(next_batch, TIMEOUT_S)
        while not any(event.value == b"2" for event in seen.events):
            seen = await asyncio.wait_for(anext(batches), TIMEOUT_S)
        while not seen.resumed:
            seen = await asyncio.wait_for(anext(batches), TIMEOUT_S)
        await store.txn([], [Put(key, b"3")])
        while not any(event.value == b"3" for event in seen.events):
            seen = await asyncio.wait_for(anext(batches), TIMEOUT_S)
    await store.close()


@pytest.mark.parametrize("damaged", ["certificate", "authorities"])
async def test_files_with_which_etcd_cannot_be_used_leave_the_former_ones_in_force(
    secured: SecuredEtcd, tmp_path: Path, caplog: pytest.LogCaptureFixture, damaged: str
) -> None:
    own, authorities, other = tmp_path / "own.pem", tmp_path / "ca.pem", make_authority(tmp_path / "other")
    secured.tls(user_of(GATEWAY))
    good = secured.authority.directory / f"{user_of(GATEWAY)}.pem"
    shutil.copy(good, own)
    shutil.copy(secured.authority.certificate, authorities)
    tls = EtcdTls(TlsFiles(str(authorities), str(own), str(own)), [secured.endpoint])
    former = tls.credentials
    store = EtcdStore([secured.endpoint], tls=tls, timeout_s=TIMEOUT_S)
    lease = await store.grant_lease(60)
    if damaged == "certificate":
        own.write_bytes(other.sign("alien", f"/CN={user_of(GATEWAY)}").read_bytes())
        reason = "etcd refuses the certificate"
    else:
        shutil.copy(other.certificate, authorities)
        reason = "etcd's certificate is not trusted"
    for _ in range(2):
        await tls.look()
        assert tls.credentials is former
        assert await store.keep_alive(lease) == 60
        await store.get(keys.CLUSTER_ID)
    (told,) = [record.__dict__["fields"]["reason"] for record in caplog.records if record.levelname == "WARNING"]
    assert told.startswith(f"{secured.endpoint}: {reason}")
    shutil.copy(good, own)
    shutil.copy(secured.authority.certificate, authorities)
    await tls.look()
    assert tls.credentials is not former
    assert await store.keep_alive(lease) == 60
    await store.close()


async def test_a_certificate_that_etcd_refuses_is_used_once_etcd_takes_it(
    etcd_binary: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    authority, own = make_authority(tmp_path / "former"), tmp_path / "own.pem"
    shutil.copy(authority.sign("anybody", "/CN=anybody"), own)
    authorities = tmp_path / "ca.pem"
    shutil.copy(authority.certificate, authorities)
    server = EtcdServer(etcd_binary, tmp_path, authority)
    server.start()
    tls = EtcdTls(TlsFiles(str(authorities), str(own), str(own)), [server.endpoint])
    later = make_authority(tmp_path / "later")
    own.write_bytes(later.sign("anybody", "/CN=anybody").read_bytes())
    try:
        await answers(server.endpoint, tls)
        await tls.look()
        assert "new certificate for etcd not used" in caplog.text
        with authority.certificate.open("ab") as trusted:
            trusted.write(later.certificate.read_bytes())
        server.stop()
        server.start()
        await answers(server.endpoint, tls)
        await until_looked(tls, caplog)
    finally:
        server.close()


async def test_a_certificate_is_used_untried_if_no_member_answers_for_long(
    secured: SecuredEtcd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    own = tmp_path / "own.pem"
    own.write_bytes(secured.authority.sign("former", "/CN=former").read_bytes())
    with socket.create_server(("127.0.0.1", 0)) as silent, socket.create_server(("127.0.0.1", 0)) as gone:
        members = [f"127.0.0.1:{listening.getsockname()[1]}" for listening in (gone, silent)]
        gone.close()
        tls = EtcdTls(TlsFiles(str(secured.authority.certificate), str(own), str(own)), members)
        former = tls.credentials
        own.write_bytes(secured.authority.sign("later", "/CN=later").read_bytes())
        await tls.look()
        assert tls.credentials is former
        monkeypatch.setattr(etcd_tls, "UNANSWERED_S_MAX", 0.0)
        await tls.look()
    assert tls.credentials is not former
    assert "not used" not in caplog.text


async def answers(endpoint: str, tls: EtcdTls) -> None:
    """Waits until etcd serves the certificate that is in force."""
    store = EtcdStore([endpoint], tls=tls, timeout_s=TIMEOUT_S)
    for _ in rounds("etcd is there"):
        try:
            await store.get(keys.CLUSTER_ID)
            break
        except StoreUnavailable:
            continue
    await store.close()


async def until_looked(tls: EtcdTls, caplog: pytest.LogCaptureFixture) -> None:
    """Looks at unchanged files until they are in force."""
    former = tls.credentials
    for _ in rounds("etcd takes the certificate"):
        await tls.look()
        if tls.credentials is not former:
            break
    assert "certificate for etcd read again" in caplog.text


@pytest.mark.parametrize(
    ("details", "code"),
    [
        ("etcdserver: revision of auth store is old", grpc.StatusCode.UNAVAILABLE),
        ("etcdserver: user name is empty", grpc.StatusCode.PERMISSION_DENIED),
        ("etcdserver: duplicate key given in txn request", grpc.StatusCode.INVALID_ARGUMENT),
    ],
)
async def test_an_argument_is_blamed_only_for_what_it_is_to_blame_for(details: str, code: grpc.StatusCode) -> None:
    async def call() -> None:
        nothing = grpc.aio.Metadata()
        raise grpc.aio.AioRpcError(grpc.StatusCode.INVALID_ARGUMENT, nothing, nothing, details)

    with pytest.raises(EtcdError) as refusal:
        await own_cancellation_only(call())
    assert refusal.value.code is code


def test_files_that_cannot_be_used_are_refused_in_a_sentence(tmp_path: Path) -> None:
    authority, other = make_authority(tmp_path / "a"), make_authority(tmp_path / "b")
    ca, missing = str(authority.certificate), str(tmp_path / "missing.pem")
    keystore = str(authority.sign("own", "/CN=own"))
    others = str(other.sign("others", "/CN=others"))
    with pytest.raises(Unusable, match=r"missing.pem cannot be read: No such file"):
        EtcdTls(TlsFiles(missing))
    with pytest.raises(Unusable, match=r"others.pem and .*own.pem are no certificate and its key"):
        EtcdTls(TlsFiles(ca, others, keystore))
    (tmp_path / "empty.pem").touch()
    with pytest.raises(Unusable, match=r"empty.pem is not a PEM file"):
        EtcdTls(TlsFiles(str(tmp_path / "empty.pem")))
    (tmp_path / "key.pem").write_bytes((authority.directory / "own.key").read_bytes())
    with pytest.raises(Unusable, match=r"key.pem has no usable certificates"):
        EtcdTls(TlsFiles(str(tmp_path / "key.pem")))
    with_list = tmp_path / "with-list.pem"
    for former, files in ((ca, (str(with_list),)), (keystore, (ca, str(with_list), str(with_list)))):
        with_list.write_bytes(Path(former).read_bytes() + b"-----BEGIN X509 CRL-----\n-----END X509 CRL-----\n")
        with pytest.raises(Unusable, match=r"with-list.pem has a revocation list, and none is read here"):
            EtcdTls(TlsFiles(*files))
    encrypted = str(authority.sign("encrypted", "/CN=own", password="secret"))
    with pytest.raises(Unusable, match="the key is encrypted"):
        EtcdTls(TlsFiles(ca, encrypted, encrypted))


def test_a_file_of_authorities_may_have_words_beyond_ascii(tmp_path: Path) -> None:
    """As `openssl x509 -text` writes names above a certificate."""
    authority = make_authority(tmp_path)
    commented = tmp_path / "commented.pem"
    commented.write_bytes("Issuer: CN = Autorité\n".encode() + authority.certificate.read_bytes())
    assert EtcdTls(TlsFiles(str(commented))).credentials is not None


def test_the_table_has_every_role() -> None:
    assert ACCESS.keys() == {*ROLES, NODE}


async def test_a_node_may_do_what_a_storage_node_and_a_gateway_may_and_no_more(secured: SecuredEtcd) -> None:
    both = {STORAGE, GATEWAY}
    async with secured.store(user_of(NODE)) as store, secured.store(ROOT) as root:
        for prefix, readers in READERS.items():
            assert await allowed(store.range(prefix)) == bool(both & set(readers)), prefix
        for key, writers in WRITERS.items():
            await store.txn([], [Put(key, b"node")])
            stored = await root.get(key)
            assert (stored is not None and stored.value == b"node") == bool(both & writers), key


@pytest.mark.parametrize("user", [ROOT, user_of(GATEWAY)])
def test_the_command_sets_up_or_says_who_may(
    secured: SecuredEtcd, user: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given_to_commands(secured, user, monkeypatch)
    succeeds = etcd_users.main(["set-up", "--etcd", secured.endpoint]) == 0
    told = capsys.readouterr()
    assert succeeds == (user == ROOT)
    assert "etcd serves users only: penstock-controller" in told.out if succeeds else "certificate of the user root" in told.err


async def test_users_may_be_turned_off(secured: SecuredEtcd) -> None:
    connection = EtcdConnection([secured.endpoint], secured.tls(ROOT), TIMEOUT_S)
    async with secured.store("nobody") as nobody:
        assert not await allowed(nobody.get(keys.CLUSTER_ID))
        await EtcdAuth(connection).turn_off()
        assert await allowed(nobody.get(keys.CLUSTER_ID))
    await connection.close()
    await secured.set_up()


def test_what_the_page_prints_makes_the_files_and_the_users(etcd_binary: str, tmp_path: Path) -> None:
    section = section_of((REPOSITORY / "docs" / "security.md").read_text(encoding="utf-8"), "etcd")
    blocks = list(blocks_of(section))
    script = "".join(block.text for block in blocks if block.language == "sh")
    subprocess.run(["bash", "-euc", script], cwd=tmp_path, check=True, capture_output=True)
    server = EtcdServer(etcd_binary, tmp_path)
    server.tls = {
        "cert-file": tmp_path / "etcd.crt",
        "key-file": tmp_path / "etcd.key",
        "trusted-ca-file": tmp_path / "etcd-ca.pem",
        "client-cert-auth": "true",
    }
    server.start()
    try:
        command = blocks[-1].text.replace("localhost:2379", server.endpoint).replace("python", sys.executable)
        environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
        done = subprocess.run(["bash", "-euc", command], cwd=tmp_path, env=environment, capture_output=True, encoding="utf-8")
        assert done.stdout.splitlines()[-1] == f"etcd serves users only: {', '.join([*map(user_of, ACCESS), ROOT])}", done.stderr
    finally:
        server.close()
