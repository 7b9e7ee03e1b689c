"""`penstock dev --security`: TLS and a user in the place of the listener that asks nobody, and data that stay protected."""

import socket
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from services.dev import command_line
from services.dev.data_folder import open_data_folder
from services.dev.security import secured
from services.dev.settings import Settings, WrongSetting
from tests.dev.clients import settings_in
from tests.dev.command import refused, running
from tests.support.polling import rounds
from tests.support.ports import reserve_ports

API_VERSIONS = b"\0\0\0\x0a" + b"\0\x12\0\0\0\0\0\1\xff\xff"
TLS_ALERT_BYTES = 7


def hears(words: str, settings: dict[str, str]) -> bool:
    """Whether librdkafka, with these settings, is told so."""
    told: list[str] = []
    client = AdminClient({**settings, "error_cb": lambda error: told.append(f"{error.name()} {error.str()}")})
    for _ in rounds(words):
        client.poll(0.1)
        if any(words in each for each in told):
            return True
    raise AssertionError(told)


def answer_to_plaintext(address: str) -> bytes:
    """All that comes back for a request without TLS until the connection is closed."""
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        connection.sendall(API_VERSIONS)
        answer = b""
        with suppress(ConnectionResetError):
            while part := connection.recv(4096):
                answer += part
        return answer


def admin_status(port: int, token: str) -> int:
    asked = urllib.request.Request(f"http://127.0.0.1:{port}/debug", headers={"Authorization": f"Bearer {token}"})
    try:
        with urllib.request.urlopen(asked, timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_a_client_with_the_files_is_served_and_others_are_not_and_a_restart_keeps_that(short_dir: Path) -> None:
    data = short_dir / "data"
    with running(short_dir / "first", "--security", "--data", str(data)) as command:
        settings = settings_in(data / "security" / "kcat.conf")
        assert settings["bootstrap.servers"] == command.bootstrap_servers
        admin = AdminClient(settings)
        admin.create_topics([NewTopic("orders", 1)])["orders"].result(30)
        assert hears("_AUTHENTICATION", {**settings, "sasl.password": "wrong"})
        assert len(answer_to_plaintext(command.bootstrap_servers)) <= TLS_ALERT_BYTES
        assert settings["sasl.password"] not in command.logged
    assert "made with --security, and would serve everybody without" in refused("--port", "0", "--data", str(data))
    reserved = reserve_ports(1)
    with running(short_dir / "second", "--security", "--data", str(data), "--admin-port", str(reserved.first)):
        token = (data / "security" / "admin-token").read_text(encoding="utf-8").strip()
        assert [admin_status(reserved.first, given) for given in ("", "wrong", token)] == [401, 401, 200]
        assert data.stat().st_mode & 0o777 == 0o700
        again = settings_in(data / "security" / "kcat.conf")
        assert again["sasl.password"] == settings["sasl.password"]
        assert "orders" in AdminClient(again).list_topics(timeout=30).topics
    reserved.release()


def test_data_that_began_without_it_and_a_second_listener_are_refused(short_dir: Path) -> None:
    (short_dir / "metadata").touch()
    folder = open_data_folder(str(short_dir))
    try:
        with pytest.raises(WrongSetting, match=r"--security makes a new cluster, and the one of --data .* began without"):
            secured(Settings(security=True), folder, 9092)
    finally:
        folder.close()
    given = command_line.parse(["--security", "--sasl-listener", "SASL_PLAINTEXT://127.0.0.1:9192"])
    with pytest.raises(WrongSetting, match="--security has a listener of its own"):
        command_line.settings_of(given)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--super-user", "User:ops"], "--super-user is for --security"),
        (["--security", "--super-user", "ops"], "--super-user is 'ops'; expected User:NAME"),
        (["--security", "--super-user", "User:a;User:b"], "expected User:NAME"),
    ],
)
def test_a_super_user_that_would_be_none_is_refused(arguments: list[str], words: str) -> None:
    with pytest.raises(WrongSetting, match=words):
        command_line.settings_of(command_line.parse(arguments))


def test_more_super_users_may_be_named(short_dir: Path) -> None:
    given = command_line.settings_of(command_line.parse(["--security", "--super-user", "User:ops", "--super-user", "User:admin"]))
    folder = open_data_folder(str(short_dir))
    try:
        assert secured(given, folder, 9092).sasl["super_users"] == "User:admin;User:ops"
    finally:
        folder.close()


def test_the_package_that_it_needs_is_named(short_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.dev.security.find_spec", lambda name: None)
    folder = open_data_folder(str(short_dir))
    try:
        with pytest.raises(WrongSetting, match=r"needs the package cryptography; .* extra \[security\]"):
            secured(Settings(security=True), folder, 9092)
    finally:
        folder.close()
