"""Clients that show a certificate: who they are, and who is not let in."""

import asyncio
import socket
import ssl
from pathlib import Path

import pytest

from services.gateway.service import Gateway
from tests.gateway.conftest import Rig
from tests.gateway.limited_clients import produced
from tests.gateway.sasl_rig import connect, log_in
from tests.gateway.tls_rig import TLS_AT, closed_lines, shown, started, started_with_sasl
from tests.support.certificates import Authority, client_context, make_authority
from tests.support.polling import until

SUBJECT = "/O=Example/OU=clients/CN=alice"
NAME = "CN=alice,OU=clients,O=Example"


@pytest.fixture(scope="module")
def alice(authority: Authority) -> Path:
    return authority.sign("alice", SUBJECT, names="")


async def mutual(rig: Rig, keystore: Path, authority: Authority, auth: str = "required", **changes: object) -> Gateway:
    trust = {"ssl_truststore_location": str(authority.certificate), "ssl_client_auth": auth}
    return await started(rig, keystore, **trust, **changes)


@pytest.mark.parametrize("auth", ["requested", "required"])
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_a_certificate_names_its_user(
    rig: Rig, keystore: Path, authority: Authority, alice: Path, auth: str, version: ssl.TLSVersion
) -> None:
    gateway = await mutual(rig, keystore, authority, auth)
    context = client_context(authority, alice)
    context.maximum_version = version
    assert await produced(await rig.client(TLS_AT, tls=context)) == 0
    assert [connection["principal"] for connection in shown(gateway)] == [f"User:{NAME}"]


@pytest.mark.parametrize("name", ["DER:30:04:82:02:FF:FE", "DER:30:04:86:02:FF:FE"])
async def test_names_that_nobody_can_read_do_not_matter(
    rig: Rig, keystore: Path, authority: Authority, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    gateway = await mutual(rig, keystore, authority)
    odd = authority.sign("odd", SUBJECT, names=name)
    assert await produced(await rig.client(TLS_AT, tls=client_context(authority, odd))) == 0
    assert [connection["principal"] for connection in shown(gateway)] == [f"User:{NAME}"]
    assert "receiver failed" not in caplog.text


async def test_a_resumed_session_has_the_same_user(rig: Rig, keystore: Path, authority: Authority, alice: Path) -> None:
    gateway = await mutual(rig, keystore, authority)
    context = client_context(authority, alice)
    context.maximum_version = ssl.TLSVersion.TLSv1_2  # `ssl` has the session at once

    def join(session: ssl.SSLSession | None) -> ssl.SSLSocket:
        connected = socket.create_connection(("127.0.0.1", rig.port_base + TLS_AT))
        return context.wrap_socket(connected, server_hostname="localhost", session=session)

    first = await asyncio.to_thread(join, None)
    second = await asyncio.to_thread(join, first.session)
    with first, second:
        assert second.session_reused
        await until(lambda: [connection["principal"] for connection in shown(gateway)] == [f"User:{NAME}"] * 2)


async def test_whoever_shows_none_is_anonymous_where_none_is_required(rig: Rig, keystore: Path, authority: Authority) -> None:
    gateway = await mutual(rig, keystore, authority, "requested")
    assert await produced(await rig.client(TLS_AT, tls=client_context(authority))) == 0
    assert [connection["principal"] for connection in shown(gateway)] == ["User:ANONYMOUS"]


async def test_whoever_shows_none_is_refused_where_one_is_required(
    rig: Rig, keystore: Path, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    gateway = await mutual(rig, keystore, authority)
    context = client_context(authority)
    context.maximum_version = ssl.TLSVersion.TLSv1_2  # with 1.3 a client hears of it later
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await rig.client(TLS_AT, tls=context)
    await until(lambda: closed_lines(caplog) == ["tls: the client has no certificate, and needs one"])
    assert len(gateway.connections) == 0


@pytest.mark.parametrize("auth", ["requested", "required"])
async def test_a_certificate_of_another_authority_is_refused(
    rig: Rig, keystore: Path, authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture, auth: str
) -> None:
    stranger = make_authority(tmp_path / "other", "/CN=another authority").sign("alice", SUBJECT, names="")
    await mutual(rig, keystore, authority, auth)
    context = client_context(authority, stranger)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await rig.client(TLS_AT, tls=context)
    await until(lambda: len(closed_lines(caplog)) == 1)
    assert closed_lines(caplog)[0].startswith("tls: the client's certificate is not trusted")


async def test_rules_map_the_name(
    rig: Rig, keystore: Path, authority: Authority, alice: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rules = "RULE:^CN=([^,]*),OU=clients,.*$/$1/U"
    gateway = await mutual(rig, keystore, authority, ssl_principal_mapping_rules=rules)
    assert await produced(await rig.client(TLS_AT, tls=client_context(authority, alice))) == 0
    assert [connection["principal"] for connection in shown(gateway)] == ["User:ALICE"]
    bob = await rig.client(TLS_AT, tls=client_context(authority, authority.sign("bob", "/CN=bob", names="")))
    assert await bob.ended()
    await until(lambda: len(closed_lines(caplog)) == 1)
    assert closed_lines(caplog) == ["tls: no rule of PENSTOCK_SSL_PRINCIPAL_MAPPING_RULES fits CN=bob"]


async def test_a_long_name_that_no_rule_fits_stands_in_the_log_as_a_whole(
    rig: Rig, keystore: Path, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    await mutual(rig, keystore, authority, ssl_principal_mapping_rules="RULE:^CN=alice$/alice/")
    units = [f"unit {number} ".ljust(60, "u") for number in range(12)]
    subject = "".join(f"/OU={unit}" for unit in units) + "/CN=bob"
    client = await rig.client(TLS_AT, tls=client_context(authority, authority.sign("long", subject, names="")))
    assert await client.ended()
    await until(lambda: len(closed_lines(caplog)) == 1)
    assert closed_lines(caplog)[0].endswith(f" fits CN=bob,{','.join(f'OU={unit}' for unit in reversed(units))}")


async def test_no_rule_makes_a_client_anonymous(
    rig: Rig, keystore: Path, authority: Authority, alice: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await mutual(rig, keystore, authority, ssl_principal_mapping_rules="RULE:^CN=.*$/ANONYMOUS/")
    client = await rig.client(TLS_AT, tls=client_context(authority, alice))
    assert await client.ended()
    await until(lambda: len(closed_lines(caplog)) == 1)
    assert "makes the client ANONYMOUS" in closed_lines(caplog)[0]


async def test_with_sasl_the_user_is_that_of_sasl(rig: Rig, keystore: Path, authority: Authority, alice: Path) -> None:
    trust = {"ssl_truststore_location": str(authority.certificate), "sasl_ssl_client_auth": "required"}
    gateway = await started_with_sasl(rig, keystore, **trust)
    client = await connect(rig, tls=client_context(authority, alice))
    assert await log_in(client) == 0
    assert [connection["principal"] for connection in shown(gateway)] == ["User:u"]
    context = client_context(authority)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await connect(rig, tls=context)
