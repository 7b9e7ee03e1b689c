"""Who is answered at an admin port: by the name in Host, or by a token."""

from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from libs.cluster.health import health_of
from libs.cluster.image import ClusterImage
from libs.runtime.admin import AdminServer
from libs.runtime.admin_access import FREE, AdminAccess, read_token
from libs.telemetry.metrics import Metrics

TOKEN = "0123456789abcdef"
PROTECTED = ["/health", "/metrics", "/debug", "/debug/", "/debug/one", "/debug/profile", "/debug/log-levels", "/nowhere"]


@pytest.mark.parametrize(
    "host",
    ["", "127.0.0.1:9600", "127.0.0.1", "[::1]:9600", "[::1]", "localhost:9600", "LOCALHOST", "storage-1:9600", "a.localhost",
     "10.1.2.3:9600", "kafka.example.com:9600", "Kafka.Example.com."],
)  # fmt: skip
def test_a_host_may_be_named_by_address_short_name_or_its_own_name(host: str) -> None:
    assert AdminAccess(("kafka.example.com", "")).refusal("/debug", host, "") is None


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:9600", "127.0.0.1.evil.example", "localhost.evil.example", "example.com", "[x]evil.example",
     "[::1]evil.example:9600", "[evil.example]", "[::1]:evil.example", "[127.0.0.1].evil.example"],
)  # fmt: skip
@pytest.mark.parametrize("path", PROTECTED)
def test_another_name_is_refused_but_for_health_checks(host: str, path: str) -> None:
    """A page of that name makes the browser of an operator ask, by a name that leads to loopback."""
    access = AdminAccess(("kafka.example.com",))
    refusal = access.refusal(path, host, f"Bearer {TOKEN}")
    assert refusal is not None
    assert refusal.status == 403
    assert all(access.refusal(free, host, "") is None for free in FREE)


@pytest.mark.parametrize("path", PROTECTED)
def test_with_a_token_only_who_sends_it_is_answered(path: str) -> None:
    access = AdminAccess((), TOKEN)
    wrong = ("", TOKEN, "Bearer", "Bearer ", f"Basic {TOKEN}", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", "Bearer \udcff")
    for given in wrong:
        refusal = access.refusal(path, "127.0.0.1:9600", given)
        assert refusal is not None
        assert (refusal.status, TOKEN in refusal.reason) == (401, False)
    assert access.refusal(path, "by.any.name", f"Bearer {TOKEN}") is None
    assert access.refusal(path, "127.0.0.1", f"bearer  {TOKEN} ") is None
    assert all(access.refusal(free, "evil.example", "") is None for free in FREE)


def test_a_file_has_one_token(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n", encoding="ascii")
    assert read_token(str(file)) == TOKEN
    for wrong in ("", "\n", "short", f"{TOKEN} {TOKEN}", f"{TOKEN}\n{TOKEN}", "ü" * 20, "a" * 5000, f'"{TOKEN}"'):
        file.write_text(wrong, encoding="utf-8")
        with pytest.raises(ValueError, match="expected one token of 16 to 4096"):
            read_token(str(file))


def test_a_new_token_counts_from_the_next_request_on_and_one_that_cannot_be_used_leaves_the_former(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file, renewed = tmp_path / "token", TOKEN[::-1]
    file.write_text(f"{TOKEN}\n", encoding="ascii")
    access = AdminAccess((), token_file=str(file))

    def statuses() -> list[int]:
        refusals = [access.refusal("/debug", "127.0.0.1", f"Bearer {token}") for token in (TOKEN, renewed)]
        return [200 if refusal is None else refusal.status for refusal in refusals]

    assert statuses() == [200, 401]
    beside = tmp_path / "beside"
    beside.write_text(f"{renewed}\n", encoding="ascii")
    beside.replace(file)
    assert statuses() == [401, 200]
    file.write_text("short", encoding="ascii")
    assert statuses() == [401, 200]
    file.unlink()
    assert statuses() == [401, 200]
    assert access.needs_token
    assert caplog.text.count("new admin token not used") == 2
    assert renewed not in caplog.text


async def served(access: AdminAccess | None, host: str = "127.0.0.1") -> AsyncIterator[AdminServer]:
    admin = AdminServer(
        host,
        0,
        ready=lambda: (True, ""),
        health=lambda: health_of(ClusterImage()),
        metrics=Metrics("test"),
        debug={"one": lambda: 1},
        access=access,
    )
    await admin.start()
    yield admin
    await admin.close()


async def test_a_port_with_a_token() -> None:
    async for admin in served(AdminAccess((), TOKEN)):
        async with aiohttp.ClientSession() as session:
            at = f"http://127.0.0.1:{admin.port}"
            for path in ("/healthz", "/readyz"):
                async with session.get(at + path) as answer:
                    assert answer.status == 200
            for method, path in (("GET", "/debug/one"), ("GET", "/metrics"), ("GET", "/health"), ("PUT", "/debug/log-levels")):
                async with session.request(method, at + path) as answer:
                    assert (answer.status, answer.headers["WWW-Authenticate"]) == (401, "Bearer")
            async with session.get(f"{at}/debug/one", headers={"Authorization": f"Bearer {TOKEN}"}) as answer:
                assert (answer.status, await answer.json()) == (200, 1)


async def test_a_port_without_a_token_refuses_a_strange_host() -> None:
    async for admin in served(None):
        async with aiohttp.ClientSession() as session:
            at = f"http://127.0.0.1:{admin.port}"
            for host, status in (("evil.example", 403), ("127.0.0.1", 200)):
                async with session.get(f"{at}/debug/one", headers={"Host": host}) as answer:
                    assert answer.status == status
                async with session.get(f"{at}/readyz", headers={"Host": host}) as answer:
                    assert answer.status == 200


@pytest.mark.parametrize(("host", "token", "lines"), [("127.0.0.1", "", 0), ("0.0.0.0", "", 1), ("0.0.0.0", TOKEN, 0)])
async def test_a_port_that_is_open_to_others_without_a_token_says_so_once(
    host: str, token: str, lines: int, caplog: pytest.LogCaptureFixture
) -> None:
    async for _ in served(AdminAccess((), token), host):
        pass
    assert caplog.text.count("admin port open to others without a token") == lines
