"""`penstock dev` with a listener on which clients authenticate, and the first users of its cluster."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ScramMechanism, UserScramCredentialUpsertion
from confluent_kafka.admin import ScramCredentialInfo as Info

from tests.dev.clients import administrator
from tests.dev.command import refused, running
from tests.support.polling import rounds
from tests.support.ports import reserve_ports

FIRST, SECOND, CHANGED = "alice-secret", "bob-secret", "another-secret"


@pytest.fixture
def port() -> Iterator[int]:
    reservation = reserve_ports(2)
    yield reservation.first
    reservation.release()


def lets_in(port: int, user: str, password: str) -> bool:
    """Whether the listener knows a user by this password."""
    told: list[str] = []
    login = {"sasl.mechanism": "SCRAM-SHA-256", "sasl.username": user, "sasl.password": password}
    settings = {"bootstrap.servers": f"127.0.0.1:{port}", "security.protocol": "SASL_PLAINTEXT", **login}
    admin = AdminClient({**settings, "error_cb": lambda error: told.append(error.name())})
    for _ in rounds("a listing, or a denial"):
        try:
            return [*admin.list_topics(timeout=0.5).brokers] == [1]
        except KafkaException:
            admin.poll(0.1)
            if "_AUTHENTICATION" in told:
                return False
    raise AssertionError(told)


def test_a_first_user_logs_in_and_a_later_start_leaves_the_password_that_was_changed(short_dir: Path, port: int) -> None:
    data, users = short_dir / "data", short_dir / "users"
    users.write_text(f"SCRAM-SHA-256=[name=bob,password={SECOND}]\n", encoding="utf-8")
    listener = ("--sasl-listener", f"SASL_PLAINTEXT://127.0.0.1:{port}", "--data", str(data), "--log-level", "debug")
    added = ("--add-scram", f"SCRAM-SHA-256=[name=alice,password={FIRST}]", "--add-scram-file", str(users))
    with running(short_dir / "first", *listener, *added) as command:
        assert lets_in(port, "alice", FIRST)
        assert lets_in(port, "bob", SECOND)
        assert not lets_in(port, "alice", SECOND)
        upsertion = UserScramCredentialUpsertion("alice", Info(ScramMechanism.SCRAM_SHA_256, 4096), CHANGED.encode())
        client = administrator(command.bootstrap_servers)
        client.alter_user_scram_credentials([upsertion])["alice"].result(30)
        assert FIRST not in command.logged
        assert SECOND not in command.logged
        assert f"port {port} or {port + 1} of 127.0.0.1 is taken; choose another by --sasl-listener" in refused(
            "--port", "0", *listener[:2]
        )
    with running(short_dir / "second", *listener, *added):
        assert lets_in(port, "alice", CHANGED)
        assert not lets_in(port, "alice", FIRST)
    assert [oct(os.stat(data / name).st_mode & 0o777) for name in ("metadata", "metadata-journal")] == ["0o600", "0o600"]
