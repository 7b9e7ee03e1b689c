"""What a file of Java's clients says of security: read as Kafka's tools read it, and refused where it would protect less."""

from pathlib import Path

import pytest

from libs.client.properties_file import read_client_properties
from libs.client.security import SecurityProblem

LOGIN = 'sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="{}";'
SECRET = "a-secret-that-nothing-may-show"
SASL = f"security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-256\n{LOGIN.format(SECRET)}\n"


def written(folder: Path, text: str) -> str:
    file = folder / "client.properties"
    file.write_text(text, encoding="latin-1")
    return str(file)


def test_what_java_reads_is_read(tmp_path: Path) -> None:
    stores = "ssl.truststore.type=PEM\nssl.truststore.location=/ca.pem\nssl.keystore.type=PEM\nssl.keystore.location : /a.pem\n"
    read = read_client_properties(written(tmp_path, f"# of alice\nbootstrap.servers=kafka:9092\n{stores}{SASL}"))
    assert (read.protocol, read.mechanism, read.user, read.password()) == ("SASL_SSL", "SCRAM-SHA-256", "alice", SECRET)
    assert (read.ca_file, read.certificate_file) == ("/ca.pem", "/a.pem")
    assert SECRET not in repr(read)


def test_a_file_without_security_means_plaintext(tmp_path: Path) -> None:
    read = read_client_properties(written(tmp_path, "client.id=mine\nrequest.timeout.ms=100\n"))
    assert not read.has_tls
    assert not read.has_sasl


def test_each_connection_reads_the_password_anew(tmp_path: Path) -> None:
    read = read_client_properties(written(tmp_path, SASL))
    written(tmp_path, SASL.replace(SECRET, 'a \\\\"new\\\\" one'))
    assert read.password() == 'a "new" one'


def test_lines_go_on_and_the_module_may_be_that_of_plain(tmp_path: Path) -> None:
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    text = f'sasl.mechanism=PLAIN\nsasl.jaas.config={module} required \\\n  username="bob" \\\n  password="p";\n'
    read = read_client_properties(written(tmp_path, f"security.protocol=SASL_PLAINTEXT\n{text}"))
    assert (read.user, read.password(), read.mechanism) == ("bob", "p", "PLAIN")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("security.protocol=TLS", "security.protocol is 'TLS'; expected one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        (f"{LOGIN.format('p')}", "sasl.jaas.config is for SASL_PLAINTEXT and SASL_SSL, and security.protocol is PLAINTEXT"),
        ("security.protocol=SSL\nsasl.mechanism=PLAIN", "sasl.mechanism is for SASL_PLAINTEXT and SASL_SSL"),
        (
            SASL.replace("SASL_SSL", "SASL_PLAINTEXT") + "ssl.truststore.type=PEM",
            "ssl.truststore.type is for SSL and SASL_SSL, and security.protocol is SASL_PLAINTEXT",
        ),
        ("security.protocol=SSL\nssl.truststore.location=/t.jks", "ssl.truststore.type is JKS; expected PEM"),
        ("security.protocol=SSL\nssl.truststore.password=p", "ssl.truststore.password has no effect here"),
        ("security.protocol=SSL\nssl.endpoint.identification.algorithm=", "names in certificates are checked"),
        (SASL.replace("SCRAM-SHA-256", "GSSAPI"), "sasl.mechanism is 'GSSAPI'; expected one of PLAIN, SCRAM-SHA-256"),
        (SASL.replace('username="alice"', ""), "sasl.jaas.config has no user and password"),
        (SASL.replace(SECRET, ""), "sasl.jaas.config has no user and password"),
        (SASL.replace("ScramLoginModule", "OAuthBearerLoginModule"), "sasl.jaas.config has no user and password"),
    ],
)
def test_what_would_have_no_effect_is_refused_in_a_sentence(text: str, words: str, tmp_path: Path) -> None:
    file = written(tmp_path, text)
    with pytest.raises(SecurityProblem) as raised:
        read_client_properties(file)
    assert words in str(raised.value)
    assert str(raised.value).startswith(f"{file}: ")
    assert SECRET not in str(raised.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SecurityProblem, match=r"none\.properties cannot be read: No such file or directory"):
        read_client_properties(str(tmp_path / "none.properties"))
