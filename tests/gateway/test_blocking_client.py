"""The blocking client of libs/client on listeners with TLS and SASL: what it is denied, it says at once."""

import asyncio
import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from libs.client.kafka_connection import BrokerUnreachable, KafkaConnection
from libs.client.metadata import metadata
from libs.client.security import MECHANISMS, Security, SecurityProblem
from tests.gateway.conftest import TOPIC, Rig
from tests.gateway.sasl_rig import SASL_AT, SECRET
from tests.gateway.tls_rig import TLS_AT, started, started_with_sasl
from tests.support.certificates import Authority, make_authority


@pytest.fixture
def password(tmp_path: Path) -> Path:
    file = tmp_path / "password"
    file.write_text(SECRET, encoding="utf-8")
    return file


async def topics(rig: Rig, at: int, security: Security, *, is_served: bool = True) -> set[str]:
    """A server that refuses a certificate may say so before the first request, or after it."""

    def ask() -> set[str]:
        with KafkaConnection("127.0.0.1", rig.port_base + at, security=security) as connection:
            assert not (is_served and connection.has_answer(0))
            return set(metadata(connection, [TOPIC]).errors)

    return await asyncio.to_thread(ask)


def sasl(authority: Authority, password: Path, **changes: str) -> Security:
    settings = {"protocol": "SASL_SSL", "mechanism": "SCRAM-SHA-256", "user": "u", "ca_file": str(authority.certificate)}
    return Security(**{"password_file": str(password), **settings, **changes})


@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_it_logs_in(rig: Rig, keystore: Path, authority: Authority, password: Path, mechanism: str) -> None:
    await started_with_sasl(rig, keystore)
    assert await topics(rig, SASL_AT, sasl(authority, password, mechanism=mechanism)) == {TOPIC}


async def test_it_takes_the_password_from_the_environment(
    rig: Rig, keystore: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    await started_with_sasl(rig, keystore)
    monkeypatch.setenv("LOGIN", SECRET)
    given = {"protocol": "SASL_SSL", "mechanism": "PLAIN", "user": "u", "password_variable": "LOGIN"}
    assert await topics(rig, SASL_AT, Security(**given, ca_file=str(authority.certificate))) == {TOPIC}


@pytest.fixture
def thousand_files() -> Iterator[None]:
    """The next descriptor is one that `select` refuses."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(4_096, hard)), hard))
    opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(1_024)]
    yield
    for fd in opened:
        os.close(fd)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("thousand_files")
async def test_a_program_with_many_files_waits_for_answers_too(
    rig: Rig, keystore: Path, authority: Authority, password: Path
) -> None:
    await started_with_sasl(rig, keystore)
    assert await topics(rig, SASL_AT, sasl(authority, password)) == {TOPIC}


async def test_it_shows_a_certificate(rig: Rig, keystore: Path, authority: Authority) -> None:
    trust = {"ssl_truststore_location": str(authority.certificate), "ssl_client_auth": "required"}
    await started(rig, keystore, **trust)
    ca = str(authority.certificate)
    mine = authority.sign("blocking", "/CN=blocking", names="")
    assert await topics(rig, TLS_AT, Security("SSL", ca_file=ca, certificate_file=str(mine))) == {TOPIC}
    with pytest.raises(BrokerUnreachable):
        await topics(rig, TLS_AT, Security("SSL", ca_file=ca), is_served=False)
    encrypted = authority.sign("blocking-encrypted", "/CN=blocking", names="", password="any-password")
    with pytest.raises(SecurityProblem, match=r"blocking-encrypted\.pem cannot be used: the key is encrypted"):
        await topics(rig, TLS_AT, Security("SSL", ca_file=ca, certificate_file=str(encrypted)))


@pytest.fixture
def wrong_password(password: Path) -> Path:
    password.write_text("wrong", encoding="utf-8")
    return password


@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_it_says_what_it_is_denied(
    rig: Rig, keystore: Path, authority: Authority, wrong_password: Path, mechanism: str
) -> None:
    await started_with_sasl(rig, keystore)
    with pytest.raises(SecurityProblem, match="denies user u: SASL_AUTHENTICATION_FAILED") as raised:
        await topics(rig, SASL_AT, sasl(authority, wrong_password, mechanism=mechanism))
    assert "wrong" not in str(raised.value)


async def test_it_names_the_mechanisms_that_are_enabled(rig: Rig, keystore: Path, authority: Authority, password: Path) -> None:
    await started_with_sasl(rig, keystore, sasl_enabled_mechanisms=("SCRAM-SHA-512",))
    with pytest.raises(SecurityProblem, match="does not enable SCRAM-SHA-256; it enables SCRAM-SHA-512"):
        await topics(rig, SASL_AT, sasl(authority, password))


async def test_it_trusts_nobody_else(rig: Rig, keystore: Path, password: Path, tmp_path: Path) -> None:
    await started_with_sasl(rig, keystore)
    other = make_authority(tmp_path / "other")
    with pytest.raises(SecurityProblem, match=r"the certificate of .* is not trusted: .*"):
        await topics(rig, SASL_AT, sasl(other, password))


async def test_a_listener_without_tls_is_unreachable(rig: Rig, authority: Authority) -> None:
    await rig.start()
    with pytest.raises(BrokerUnreachable, match="does not speak TLS"):
        await topics(rig, 1, Security("SSL", ca_file=str(authority.certificate)))
