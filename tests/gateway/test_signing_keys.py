"""The reader of key sets: from a file and an https endpoint, again for an unknown key, and what stays when reading fails."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from libs.clock import SystemClock
from libs.telemetry.metrics import Metrics
from services.gateway.core.oauthbearer_settings import KeyEndpoint, KeyFile, KeySource, NoKeySource, key_source
from services.gateway.core.signing_keys import DOCUMENT_BYTES_MAX
from services.gateway.gateway_meters import GatewayMeters
from services.gateway.peers import signing_keys
from services.gateway.peers.signing_keys import SigningKeyReader
from tests.gateway.token_issuer import KeyServer, key_server, key_set, public_jwk
from tests.support.polling import until

LONG_S = 3600.0


@pytest.fixture
def server(tmp_path: Path) -> Iterator[KeyServer]:
    with key_server(tmp_path) as running:
        yield running


@asynccontextmanager
async def reader(source: KeySource, refresh_s: float = LONG_S) -> AsyncIterator[tuple[SigningKeyReader, GatewayMeters]]:
    meters = GatewayMeters(Metrics("gateway"), SystemClock())
    made = SigningKeyReader(source, refresh_s, meters)
    made.start()
    try:
        yield made, meters
    finally:
        made.close()


def source_of(server: KeyServer, tmp_path: Path) -> KeySource:
    return key_source(server.url, str(tmp_path / "certificate.pem"))


async def test_keys_are_read_from_an_endpoint(server: KeyServer, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    source = key_source(server.url + "?api_key=secret", str(tmp_path / "certificate.pem"))
    async with reader(source) as (keys, meters):
        await until(lambda: keys.current.find("k", "RS256") is not None)
    assert meters.unread_signing_keys == 0
    assert "signing keys read" in caplog.text
    assert "secret" not in str([record.__dict__ for record in caplog.records])


async def test_keys_are_read_from_a_file_and_again_at_intervals(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_bytes(key_set(public_jwk("RSA", "k")))
    async with reader(key_source(f"file://{path}"), 0.01) as (keys, _):
        await until(lambda: keys.current.find("k", "RS256") is not None)
        path.write_bytes(key_set(public_jwk("RSA", "new")))
        await until(lambda: keys.current.find("new", "RS256") is not None)
        assert keys.current.find("k", "RS256") is None


async def test_an_endpoint_whose_certificate_is_not_trusted_is_not_believed(server: KeyServer) -> None:
    async with reader(key_source(server.url)) as (keys, meters):
        await until(lambda: meters.unread_signing_keys == 1)
        assert (len(keys.current), server.asked) == (0, 0)


@pytest.mark.parametrize("fault", ["status", "redirect", "damage", "size", "gone"])
async def test_the_last_keys_stay_when_reading_fails(
    server: KeyServer, tmp_path: Path, fault: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signing_keys, "RETRY_S", 0.01)
    async with reader(source_of(server, tmp_path), 0.01) as (keys, meters):
        await until(lambda: keys.current.find("k", "RS256") is not None)
        match fault:
            case "status":
                server.status = 503
            case "redirect":
                server.status = 302
            case "damage":
                server.document = b"<html>"
            case "size":
                server.document = b" " * (DOCUMENT_BYTES_MAX + 1)
            case "gone":
                (tmp_path / "certificate.pem").unlink()
        await until(lambda: meters.unread_signing_keys > 1)
        assert keys.current.find("k", "RS256") is not None
        assert "signing keys not read" in caplog.text


async def test_an_endpoint_that_comes_back_is_asked_again(
    server: KeyServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signing_keys, "RETRY_S", 0.01)
    server.status = 500
    async with reader(source_of(server, tmp_path)) as (keys, meters):
        await until(lambda: meters.unread_signing_keys > 1)
        server.status = 200
        await until(lambda: len(keys.current) == 1)


async def test_unknown_keys_have_the_set_read_again_at_a_limited_rate(
    server: KeyServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with reader(source_of(server, tmp_path)) as (keys, _):
        await asyncio.gather(*(keys.read_again() for _ in range(50)))
        assert (len(keys.current), server.asked) == (1, 1)
        server.document = key_set(public_jwk("RSA", "new"))
        await asyncio.gather(*(keys.read_again() for _ in range(50)))
        assert server.asked == 1, "10 s have not passed"
        monkeypatch.setattr(signing_keys, "UNKNOWN_KEY_S_MIN", 0.0)
        await asyncio.gather(*(keys.read_again() for _ in range(50)))
        assert server.asked == 2, "all wait for the same read"
        assert keys.current.find("new", "RS256") is not None


# --- settings -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://issuer.example/keys", KeyEndpoint("issuer.example", 443, "/keys")),
        ("https://issuer.example:8443", KeyEndpoint("issuer.example", 8443, "/")),
        ("https://[::1]:8443/a/b?c=d", KeyEndpoint("::1", 8443, "/a/b?c=d")),
        ("file:///etc/penstock/keys.json", KeyFile("/etc/penstock/keys.json")),
        ("file:///etc/two%20words", KeyFile("/etc/two words")),
    ],
)
def test_keys_come_from_https_or_a_file(url: str, expected: KeySource) -> None:
    assert key_source(url) == expected


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("", "is empty; OAUTHBEARER needs the keys"),
        ("http://issuer.example/keys", "is neither https://HOST"),
        ("https://", "is neither https://HOST"),
        ("file://keys.json", "is neither https://HOST"),
        ("file:keys.json", "is neither https://HOST"),
        ("/etc/keys.json", "is neither https://HOST"),
        ("ftp://issuer.example/keys", "is neither https://HOST"),
        ("https://user:password@issuer.example/keys", "has a user or a password"),
        ("https://issuer.example:port/keys", "is not a URL"),
        ("https://issuer.example:99999/keys", "is not a URL"),
        ("https://issuer.example/keys and more", "has characters that a URL cannot have"),
        ("https://issuer.example/ключи", "has characters that a URL cannot have"),
    ],
)
def test_another_source_of_keys_is_refused_with_a_sentence(url: str, sentence: str) -> None:
    with pytest.raises(NoKeySource, match=sentence):
        key_source(url)
