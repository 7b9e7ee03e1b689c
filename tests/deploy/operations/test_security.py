"""docs/security.md: listeners with TLS and SASL, a user who logs in as it is printed, and who is denied once deleted."""

from collections.abc import Iterator

import pytest

from tests.support.polling import eventually
from tests.support.printed_blocks import blocks_of, section_of
from tests.support.printed_commands import PrintedCommands, printed_commands
from tests.support.printed_pages import differing_lines
from tests.support.requirements import ROOT, require

PAGE = ROOT / "docs" / "security.md"
TLS = "-X security.protocol=SASL_SSL -X ssl.ca.location=ca.pem"
LOGIN = f"{TLS} -X sasl.mechanism=SCRAM-SHA-256 -X sasl.username=alice -X sasl.password=alice-secret"
TOOLS = ("kafka-acls", "kafka-configs", "kafka-console-producer")
FILES = [*(f"ca.{kind}" for kind in ("key", "pem")), *(f"gateway.{kind}" for kind in ("key", "csr", "ext", "crt", "pem"))]


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrintedCommands]:
    require("java", "kafka", "etcd", "kcat")
    directory = tmp_path_factory.mktemp("security")
    places = {name: str(directory / name) for name in ("alice.properties", "first-users", *FILES)}
    with printed_commands(PAGE, directory, tools=TOOLS, places=places) as ready:
        ready.section("A certificate")
        ready.section("A listener with SASL")
        yield ready


@pytest.fixture(scope="module")
def one_word(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrintedCommands]:
    require("java", "kafka", "etcd", "kcat")
    directory = tmp_path_factory.mktemp("one-word")
    places = {"metadata.backup": str(directory / "metadata.backup")}
    tools = ("kafka-acls", "kafka-configs", "kafka-console-consumer")
    with printed_commands(PAGE, directory, tools=tools, places=places) as ready:
        yield ready


def test_one_word_protects_a_cluster_and_a_lost_password_can_be_replaced(one_word: PrintedCommands) -> None:
    printed = one_word.section("One word")
    assert "broker 3 at" in printed
    assert printed.splitlines()[-1] == "order 1"
    one_word.sh("rm .run/security/first-users")
    one_word.section("A lost password")
    assert one_word.sh("grep -c another-secret .run/security/kcat.conf") == "1\n"
    assert one_word.sh("kcat -F .run/security/kcat.conf -C -q -t orders -p 0 -e") == "order 1\n"
    one_word.section("Users of such a cluster")
    assert one_word.sh("kcat -F .run/security/kcat.conf -C -q -t orders -p 0 -e") == "order 1\norder 2\n"


def test_the_first_user_is_there_and_none_of_its_password_is_written(commands: PrintedCommands) -> None:
    login = LOGIN.replace("alice", "admin")
    assert "broker 1 at" in commands.sh(f"kcat -L -m 30 -b 127.0.0.1:9192 {login}")
    run = commands.run_directory.path
    assert "users=admin" in commands.sh(f"cat {run}/logs/controller-1.log")
    assert commands.sh(f"grep -rl -D skip admin-secret {run} || true") == ""


def test_a_user_is_made_logs_in_and_is_deleted_as_the_page_prints(commands: PrintedCommands) -> None:
    own = section_of(PAGE.read_text(encoding="utf-8"), "Users")
    expected = "".join(block.text for block in blocks_of(own) if block.language == "text")
    printed = commands.section("Users")
    assert not list(differing_lines(expected, printed)), printed
    commands.section("A listener with TLS")
    assert commands.section("Log in").splitlines()[-2:] == ["order 0", "order 1"]
    with_acls = commands.section("ACLs")
    assert "principal=User:alice, host=*, operation=WRITE, permissionType=ALLOW" in with_acls
    assert "resourceType=GROUP, name=billing, patternType=PREFIXED" in with_acls
    assert "Broker: Topic authorization failed" in with_acls
    assert "order 2" in commands.sh(f"kcat -C -q -o -1 -c 1 -t orders -p 0 -m 30 -b 127.0.0.1:9192 {LOGIN}")
    assert "request denied" in commands.sh(f"cat {commands.run_directory.path}/logs/gateway-1.log")
    commands.section("Delete a user")
    asked = f"kcat -L -m 5 -b 127.0.0.1:9192 {LOGIN} 2>&1 || true"
    eventually(lambda: "Authentication failed" in commands.sh(asked))
