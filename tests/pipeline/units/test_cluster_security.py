"""`[cluster.security]`: what it becomes for each client, and what it may not say. No message has the password."""

from pathlib import Path

import pytest

from libs.client.security import NO_SECURITY, Security
from services.pipeline.errors import InvalidJobFile, SinkError
from services.pipeline.job_file.file import parse_job_file
from services.pipeline.job_file.sink_options import Target
from services.pipeline.sink.options import read_options
from services.pipeline.spark.cluster import ClusterSettings
from services.pipeline.spark.cluster_security import java_properties, librdkafka_properties
from tests.support.certificates import Authority

PASSWORD = "a-password-that-nothing-may-show"
REST = '\n[lake]\npath = "/tmp/lake"\n[jobs.orders]\nkind = "archive"\ntopics = ["orders"]\n'
LOGIN = 'protocol = "SASL_SSL"\nmechanism = "SCRAM-SHA-512"\nuser = "lake"\n'


@pytest.fixture
def password(tmp_path: Path) -> Path:
    (file := tmp_path / "password").write_text(PASSWORD, encoding="utf-8")
    return file


def cluster(security: str, options: str = "") -> ClusterSettings:
    table = f'[cluster]\nbootstrap_servers = "127.0.0.1:9092"\n{options}\n'
    return parse_job_file(table + (f"[cluster.security]\n{security}" if security else "") + REST).cluster


def test_passwords_are_referred_to_by_java_and_read_by_librdkafka(password: Path, authority: Authority) -> None:
    settings = cluster(f'{LOGIN}password_file = "{password}"\nca_file = "{authority.certificate}"')
    java = settings.java_options
    assert f'username="lake" password="${{password:{password.parent}:password}}";' in java["sasl.jaas.config"]
    assert java["config.providers.password.class"].endswith("DirectoryConfigProvider")
    assert (java["security.protocol"], java["ssl.truststore.location"]) == ("SASL_SSL", str(authority.certificate))
    assert PASSWORD not in str(java)
    assert librdkafka_properties(settings.security) == {
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(authority.certificate),
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "lake",
        "sasl.password": PASSWORD,
    }


def test_the_environment_may_have_the_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKE_PASSWORD", PASSWORD)
    settings = cluster(f'{LOGIN}password_variable = "LAKE_PASSWORD"'.replace("SASL_SSL", "SASL_PLAINTEXT"))
    assert 'password="${password:LAKE_PASSWORD}";' in settings.java_options["sasl.jaas.config"]
    assert librdkafka_properties(settings.security)["sasl.password"] == PASSWORD


def test_a_certificate_is_shown_by_all_clients(authority: Authority) -> None:
    keystore = authority.sign("lake", "/CN=lake", names="")
    security = cluster(f'protocol = "SSL"\nca_file = "{authority.certificate}"\ncertificate_file = "{keystore}"').security
    assert java_properties(security)["ssl.keystore.location"] == str(keystore)
    assert librdkafka_properties(security)["ssl.key.location"] == str(keystore)


def test_without_the_table_nothing_is_added() -> None:
    settings = cluster("", 'options.client.rack = "a"')
    assert (settings.security, settings.java_options) == (NO_SECURITY, {"client.rack": "a"})


def test_the_sink_gets_what_the_job_file_says(password: Path) -> None:
    security = cluster(f'{LOGIN}password_file = "{password}"'.replace("SASL_SSL", "SASL_PLAINTEXT")).security
    options = Target("totals").sink_options(ClusterSettings("127.0.0.1:9092", security=security))
    assert read_options(options).security == security
    assert PASSWORD not in str(options)


@pytest.mark.parametrize(
    ("security", "complaint"),
    [
        (f'{LOGIN}password = "{PASSWORD}"', r"cluster\.security\.password is not allowed: name the place of the password"),
        (LOGIN, r"cluster\.security\.password_file: exactly one of password_file and password_variable is needed"),
        (f'{LOGIN}password_file = "/nowhere/p"', r"password_file: the file /nowhere/p cannot be read: No such file"),
        (f'{LOGIN}password_variable = "NOT_THERE"', r"password_variable: the environment has no variable NOT_THERE"),
        (f'{LOGIN}password_file = "/a:b"', r"password_file: '/a:b' may have none of : \{ \}"),
        ('protocol = "TLS"', r"protocol: 'TLS' is none of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        ('protocol = "SASL_SSL"\nmechanism = "GSSAPI"', r"mechanism: 'GSSAPI' is none of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512"),
        ('protocol = "SASL_SSL"\nmechanism = "PLAIN"', r"cluster\.security\.user: it is missing"),
        ('protocol = "SSL"\nuser = "lake"', r"user: it is for SASL_PLAINTEXT and SASL_SSL, and protocol is SSL"),
        ('ca_file = "/ca.pem"', r"ca_file: it is for SSL and SASL_SSL, and protocol is PLAINTEXT"),
        ('protocol = "SSL"\nca_file = "/nowhere.pem"', r"ca_file: the certificates of /nowhere\.pem cannot be used: "),
        ('protocol = "SSL"\nca = "/ca.pem"', r"there is no key cluster\.security\.ca; known here: protocol, mechanism"),
    ],
)
def test_what_is_wrong_is_refused_in_a_sentence(security: str, complaint: str) -> None:
    with pytest.raises(InvalidJobFile, match=complaint) as raised:
        cluster(security)
    assert PASSWORD not in str(raised.value)


@pytest.mark.parametrize("end", ["\n", '"', "\\", "$"])
def test_a_password_that_javas_clients_would_misread_is_refused(password: Path, end: str) -> None:
    password.write_text(PASSWORD + end, encoding="utf-8")
    with pytest.raises(InvalidJobFile, match=r"password_file: the password may have no quotes, backslashes") as raised:
        cluster(f'{LOGIN}password_file = "{password}"')
    assert PASSWORD not in str(raised.value)


@pytest.mark.parametrize("name", ["sasl.jaas.config", "sasl.password", "ssl.key.password"])
def test_a_password_in_the_job_file_is_refused_unless_it_is_a_reference(name: str) -> None:
    with pytest.raises(InvalidJobFile, match=rf"cluster\.options\.{name} is not allowed: passwords have their place") as raised:
        cluster("", f'options."{name}" = "{PASSWORD}"')
    assert PASSWORD not in str(raised.value)
    assert cluster("", f'options."{name}" = "${{env:LOGIN}}"').options == {name: "${env:LOGIN}"}


def test_options_do_not_contradict_the_table() -> None:
    with pytest.raises(InvalidJobFile, match=r"cluster\.options\.security\.protocol is not allowed beside cluster\.security"):
        cluster('protocol = "SSL"', 'options.security.protocol = "PLAINTEXT"')


def test_the_sink_refuses_in_a_sentence() -> None:
    options = {"kafka.bootstrap.servers": "127.0.0.1:9092", "kafka.security.protocol": "SASL_SSL"}
    with pytest.raises(SinkError, match=r"kafka\.sasl\.mechanism: it is missing; it is PLAIN, SCRAM"):
        read_options(options)
    assert read_options(options | {"kafka.security.protocol": "plaintext"}).security == Security()
