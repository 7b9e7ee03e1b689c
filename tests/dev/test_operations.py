"""The programs of an installation on a cluster that serves nobody without TLS and a user: `services.operations`. A user of theirs
has the ACLs that docs/security.md prints, and no others."""

import argparse
from collections.abc import Sequence
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from confluent_kafka.admin import ScramCredentialInfo as Info

from libs.client.kafka_connection import KafkaConnection
from libs.client.properties_file import read_client_properties
from services.operations.__main__ import main
from services.operations.requests import Refused, set_decommission, unregister
from tests.dev.clients import settings_in
from tests.dev.command import running
from tests.support.printed_acls import printed_acls

PASSWORD = "password-of-the-operator"


def login_of(user: str, password: str, admins: Path, file: Path) -> str:
    settings = settings_in(admins)
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    settings["sasl.jaas.config"] = f'{module} required username="{user}" password="{password}";'
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()), encoding="utf-8")
    return str(file)


def allow(admin: AdminClient, arguments: Sequence[str]) -> None:
    """What a command of kafka-acls with these arguments allows."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--add", action="store_true", required=True)
    parser.add_argument("--allow-principal", required=True)
    parser.add_argument("--operation", action="append")
    parser.add_argument("--topic")
    parser.add_argument("--cluster", action="store_true")
    parser.add_argument("--resource-pattern-type", default="literal")
    given = parser.parse_args(arguments)
    kind, name = (ResourceType.BROKER, "kafka-cluster") if given.cluster else (ResourceType.TOPIC, given.topic)
    pattern = ResourcePatternType[given.resource_pattern_type.upper()]
    names = {"AlterConfigs": "ALTER_CONFIGS"}
    operations = [AclOperation[names.get(each, each.upper())] for each in given.operation]
    bindings = [
        AclBinding(kind, name, pattern, given.allow_principal, "*", operation, AclPermissionType.ALLOW)
        for operation in operations
    ]
    for made in admin.create_acls(bindings).values():
        made.result(30)


def ended(*arguments: str) -> str:
    """What a program that fails says last."""
    with pytest.raises(SystemExit) as raised:
        main(arguments)
    return str(raised.value.code)


def test_programs_log_in_and_a_user_who_does_not_see_all_topics_empties_no_broker(
    short_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = short_dir / "data"
    with running(short_dir, "--security", "--data", str(data)) as command:
        bootstrap = ("--bootstrap", command.bootstrap_servers)
        java = data / "security" / "client.properties"
        main(["smoke", *bootstrap, "--command-config", str(java)])
        assert capsys.readouterr().out.count("came back") == 1
        assert "SASL_AUTHENTICATION_FAILED" in ended(
            "smoke", *bootstrap, "--command-config", login_of("admin", "wrong", java, short_dir / "wrong.properties")
        )
        assert "does not answer METADATA" in ended("smoke", *bootstrap, "--timeout", "0.1")

        admin = AdminClient(settings_in(data / "security" / "kcat.conf"))
        admin.create_topics([NewTopic("orders", 1)])["orders"].result(30)
        upsertion = UserScramCredentialUpsertion("operator", Info(ScramMechanism.SCRAM_SHA_512, 4096), PASSWORD.encode())
        admin.alter_user_scram_credentials([upsertion])["operator"].result(30)
        operator = login_of("operator", PASSWORD, java, short_dir / "operator.properties")
        login = (*bootstrap, "--command-config", operator)
        decommission = ("decommission", *login, "--keep", "1")
        own_topics, all_topics, cluster = printed_acls("Programs of an installation")
        assert "DescribeLogDirs: CLUSTER_AUTHORIZATION_FAILED" in ended(*decommission)
        allow(admin, cluster)
        said = ended(*decommission)
        assert "topics cannot be seen, such as" in said
        assert "the user needs DESCRIBE on all topics" in said
        assert "TOPIC_AUTHORIZATION_FAILED" in ended("smoke", *login)
        allow(admin, all_topics)
        capsys.readouterr()
        main(decommission)
        main(["forget", *login, "--keep", "1"])
        assert capsys.readouterr().out.count("no broker has an id above 1: nothing to do") == 2
        with KafkaConnection(
            "127.0.0.1", int(command.bootstrap_servers.rpartition(":")[2]), security=read_client_properties(operator)
        ) as asked:
            unregister(asked, 7)  # who may not is refused, also for a broker that there is not
            with pytest.raises(Refused, match="Broker 1 cannot be decommissioned"):
                set_decommission(asked, 1)
        allow(admin, own_topics)
        main(["smoke", *login])
        assert "came back" in capsys.readouterr().out
