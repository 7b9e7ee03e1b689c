"""The settings of listeners, and the sentences that refuse what is not served or would weaken in silence."""

import re
from dataclasses import replace

import pytest

from libs.cluster.scram_credentials import SCRAM_SHA_256
from libs.runtime.config import load
from services.gateway.config import GatewayConfig
from services.gateway.core.authentication import OAUTHBEARER, PLAIN
from services.gateway.core.listener_settings import (
    SASL_PLAINTEXT,
    SASL_SSL,
    SSL,
    WITH_SASL,
    Address,
    Unserved,
    check_mechanisms,
    listener_address,
    port_clash,
)

CONFIG = GatewayConfig(node_id=1, etcd=("127.0.0.1:2379",), port_base=9092, data_dir="/d", rpc_tcp="127.0.0.1:9300")
KEYS = {"ssl_keystore_location": "/keys/gateway.pem"}
WITH_SSL = {"ssl_listener": "SSL://0.0.0.0:9592", **KEYS}

MUTUAL = {**WITH_SSL, "ssl_truststore_location": "/keys/ca.pem", "ssl_client_auth": "required"}


AS_IN_KAFKA: dict[str, tuple[str, object]] = {
    "authorizer": ("StandardAuthorizer", "StandardAuthorizer"),
    "super_users": ("User:admin", "User:admin"),
    "allow_everyone_if_no_acl_found": ("true", True),
    "sasl_enabled_mechanisms": ("SCRAM-SHA-256 , PLAIN", (SCRAM_SHA_256, PLAIN)),
    "sasl_listener": ("SASL_SSL://0.0.0.0:9492", "SASL_SSL://0.0.0.0:9492"),
    "reauthentication_s_max": ("60", 60.0),
    "failed_authentication_delay_ms": ("200", 200),
    "ssl_listener": ("SSL://0.0.0.0:9592", "SSL://0.0.0.0:9592"),
    "ssl_keystore_location": ("/keys/gateway.pem", "/keys/gateway.pem"),
    "ssl_keystore_type": ("PEM", "PEM"),
    "ssl_truststore_location": ("/keys/ca.pem", "/keys/ca.pem"),
    "ssl_client_auth": ("required", "required"),
    "sasl_ssl_client_auth": ("requested", "requested"),
    "ssl_enabled_protocols": ("TLSv1.2 , TLSv1.3", ("TLSv1.2", "TLSv1.3")),
    "ssl_principal_mapping_rules": ("RULE:^CN=(.*?),.*$/$1/, DEFAULT", "RULE:^CN=(.*?),.*$/$1/, DEFAULT"),
}
"""Settings of authorizers, SASL and TLS that Kafka has: a value, and how it is read."""


def problem(**changes: object) -> str:
    return replace(CONFIG, **changes).problem() or ""  # type: ignore[arg-type]


def test_a_listener_is_named_as_in_kafka() -> None:
    assert listener_address("SASL_PLAINTEXT://0.0.0.0:9492", WITH_SASL) == Address(SASL_PLAINTEXT, "0.0.0.0", 9492)
    assert listener_address("SASL_SSL://[::1]:9492", WITH_SASL) == Address(SASL_SSL, "::1", 9492)
    assert listener_address("SSL://kafka.example.com:9592", (SSL,)) == Address(SSL, "kafka.example.com", 9592)


@pytest.mark.parametrize("around", ["{}", " {}", "{} ", "\t{}\r\n"])
def test_spaces_around_a_value_do_not_count_as_in_kafka(around: str) -> None:
    """ConfigDef.parseType trims each text, and StandardAuthorizer the two that it reads itself."""
    env = {f"PENSTOCK_{name.upper()}": around.format(text) for name, (text, _) in AS_IN_KAFKA.items()}
    given = {"PENSTOCK_NODE_ID": "1", "PENSTOCK_PORT_BASE": "9092", "PENSTOCK_DATA_DIR": "/d", "PENSTOCK_ETCD": "127.0.0.1:2379"}
    config = load(GatewayConfig, env=given | env)
    assert {name: getattr(config, name) for name in AS_IN_KAFKA} == {name: value for name, (_, value) in AS_IN_KAFKA.items()}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("SSL://0.0.0.0:9492", "SSL is not served here: PENSTOCK_SSL_LISTENER sets the listener with TLS"),
        ("PLAINTEXT://0.0.0.0:9492", "PLAINTEXT is not served here: PENSTOCK_LISTEN_HOST"),
        ("EXTERNAL://0.0.0.0:9492", "EXTERNAL is not served here: only SASL_PLAINTEXT and SASL_SSL"),
        ("SASL_PLAINTEXT://:9492", "is not of the form SASL_SSL://HOST:PORT"),
        ("SASL_PLAINTEXT://host:0", "is not of the form"),
        ("9492", "is not of the form"),
    ],
)
def test_another_protocol_is_refused_with_a_sentence(text: str, sentence: str) -> None:
    with pytest.raises(Unserved, match=re.escape(sentence)):
        listener_address(text, WITH_SASL)


@pytest.mark.parametrize(
    ("enabled", "sentence"),
    [
        (["GSSAPI"], "GSSAPI is not served: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER are"),
        ([SCRAM_SHA_256, OAUTHBEARER], "PENSTOCK_SASL_OAUTHBEARER_WITHOUT_TLS=true allows it"),
        ([PLAIN], "PENSTOCK_SASL_PLAIN_WITHOUT_TLS=true allows it"),
        ([], "names no mechanism"),
    ],
)
def test_another_mechanism_is_refused_with_a_sentence(enabled: list[str], sentence: str) -> None:
    with pytest.raises(Unserved, match=re.escape(sentence)):
        check_mechanisms(enabled, plain_is_allowed=False, oauthbearer_is_allowed=False)
    check_mechanisms([PLAIN], plain_is_allowed=True, oauthbearer_is_allowed=False)
    check_mechanisms([OAUTHBEARER], plain_is_allowed=False, oauthbearer_is_allowed=True)


def test_passwords_and_tokens_need_no_permission_under_tls() -> None:
    assert problem(sasl_listener="SASL_SSL://127.0.0.1:9492", sasl_enabled_mechanisms=(PLAIN,), **KEYS) == ""
    tokens = {"sasl_enabled_mechanisms": (OAUTHBEARER,), "sasl_oauthbearer_jwks_endpoint_url": "https://keys.example.com/jwks"}
    assert problem(sasl_listener="SASL_SSL://127.0.0.1:9492", **tokens, **KEYS) == ""
    assert "PLAIN without TLS" in problem(sasl_listener="SASL_PLAINTEXT://127.0.0.1:9492", sasl_enabled_mechanisms=(PLAIN,))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (WITH_SSL, ""),
        ({**WITH_SSL, "ssl_advertised_listener": "SSL://kafka.example.com:443"}, ""),
        ({**WITH_SSL, "ssl_enabled_protocols": ("TLSv1.3",)}, ""),
        ({"ssl_listener": "SSL://0.0.0.0:9592"}, "PENSTOCK_SSL_KEYSTORE_LOCATION is empty"),
        ({"sasl_listener": "SASL_SSL://0.0.0.0:9492"}, "PENSTOCK_SSL_KEYSTORE_LOCATION is empty"),
        ({**WITH_SSL, "ssl_listener": "PLAINTEXT://h:9592"}, "PENSTOCK_SSL_LISTENER: PLAINTEXT is not served here"),
        ({**WITH_SSL, "ssl_advertised_listener": "9592"}, "PENSTOCK_SSL_ADVERTISED_LISTENER: '9592' is not of the form"),
        ({"ssl_advertised_listener": "SSL://h:1"}, "PENSTOCK_SSL_ADVERTISED_LISTENER needs PENSTOCK_SSL_LISTENER"),
        ({**WITH_SSL, "ssl_keystore_type": "JKS"}, "PENSTOCK_SSL_KEYSTORE_TYPE: JKS is not served: only PEM is"),
        ({**WITH_SSL, "ssl_keystore_type": "PKCS12"}, "PENSTOCK_SSL_KEYSTORE_TYPE: PKCS12 is not served"),
        ({**WITH_SSL, "ssl_enabled_protocols": ("TLSv1.1",)}, "TLSv1.1 is not served: TLSv1.2 and TLSv1.3 are"),
        ({**WITH_SSL, "ssl_enabled_protocols": ()}, "names no version"),
        ({**WITH_SSL, "listener_name": "SSL"}, "PENSTOCK_LISTENER_NAME is SSL, which is the name of PENSTOCK_SSL_LISTENER"),
        (KEYS, "PENSTOCK_SSL_KEYSTORE_LOCATION needs a listener with TLS"),
        ({**WITH_SSL, "ssl_key_location": "/keys/tls.key"}, ""),
        ({"ssl_key_location": "/k"}, "PENSTOCK_SSL_KEY_LOCATION needs a listener with TLS"),
        ({"ssl_key_password_file": "/p"}, "PENSTOCK_SSL_KEY_PASSWORD_FILE needs a listener with TLS"),
        ({**WITH_SSL, "plaintext_listener": False}, ""),
        (
            {"plaintext_listener": False},
            "PENSTOCK_PLAINTEXT_LISTENER=false needs PENSTOCK_SASL_LISTENER or PENSTOCK_SSL_LISTENER",
        ),
        (MUTUAL, ""),
        ({**MUTUAL, "ssl_principal_mapping_rules": "RULE:^CN=(.*)$/$1/L,DEFAULT"}, ""),
        ({**MUTUAL, "ssl_client_auth": "maybe"}, "PENSTOCK_SSL_CLIENT_AUTH is maybe; expected none, requested, required"),
        ({**WITH_SSL, "ssl_client_auth": "required"}, "PENSTOCK_SSL_TRUSTSTORE_LOCATION names nobody to trust"),
        ({**MUTUAL, "ssl_client_auth": "none"}, "PENSTOCK_SSL_TRUSTSTORE_LOCATION needs PENSTOCK_SSL_CLIENT_AUTH"),
        ({**MUTUAL, "ssl_truststore_type": "JKS"}, "PENSTOCK_SSL_TRUSTSTORE_TYPE: JKS is not served"),
        ({**MUTUAL, "sasl_ssl_client_auth": "required"}, "PENSTOCK_SASL_SSL_CLIENT_AUTH needs SASL_SSL"),
        ({"ssl_client_auth": "required"}, "PENSTOCK_SSL_CLIENT_AUTH needs PENSTOCK_SSL_LISTENER"),
        ({"ssl_principal_mapping_rules": "RULE:a/b/"}, "PENSTOCK_SSL_PRINCIPAL_MAPPING_RULES needs PENSTOCK_SSL_CLIENT_AUTH"),
        ({**MUTUAL, "ssl_principal_mapping_rules": "RULE:(a/$1/"}, "the pattern of 'RULE:(a/$1/' is not one of RE2"),
        ({**MUTUAL, "ssl_principal_mapping_rules": "default"}, "'default' is no rule"),
        ({**MUTUAL, "ssl_principal_mapping_rules": " , "}, "PENSTOCK_SSL_PRINCIPAL_MAPPING_RULES: it has no rule"),
        ({**WITH_SSL, "ssl_listener": "SSL://0.0.0.0:9092"}, "PENSTOCK_PORT_BASE and PENSTOCK_SSL_LISTENER both need port 9092"),
        ({**WITH_SSL, "ssl_listener": "SSL://192.0.2.1:9092"}, ""),
        (
            {**WITH_SSL, "sasl_listener": "SASL_SSL://192.0.2.1:9592"},
            "PENSTOCK_SSL_LISTENER and PENSTOCK_SASL_LISTENER both need port 9592",
        ),
        (
            {**KEYS, "sasl_listener": "SASL_SSL://h:1", "ssl_truststore_location": "/t", "ssl_client_auth": "required"},
            "PENSTOCK_SSL_CLIENT_AUTH needs PENSTOCK_SSL_LISTENER",
        ),
        (
            {**KEYS, "sasl_listener": "SASL_SSL://h:1", "sasl_advertised_listener": "SASL_PLAINTEXT://h:1"},
            "PENSTOCK_SASL_ADVERTISED_LISTENER: SASL_PLAINTEXT is advertised, and the listener is SASL_SSL",
        ),
    ],
)
def test_settings_of_tls_that_are_wrong_are_refused_with_a_sentence(changes: dict[str, object], sentence: str) -> None:
    found = problem(**changes)
    assert sentence in found
    assert bool(found) == bool(sentence)


def test_ports_of_broker_ids_clash_too() -> None:
    listens = {"ONE": Address("PLAINTEXT", "::", 9092), "OTHER": Address(SSL, "127.0.0.1", 9095)}
    assert port_clash(listens, (1, 2)) is None
    assert port_clash(listens, (1, 3)) == "ONE and OTHER both need port 9095: broker id i has the port of each listener plus i"
