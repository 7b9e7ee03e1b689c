"""SaslHandshake and SaslAuthenticate on a listener without SASL."""

from tests.compat.differential.scenario import Scenario

HANDSHAKE, AUTHENTICATE = "sasl_handshake", "sasl_authenticate"

SASL = (
    Scenario("PLAIN", HANDSHAKE, lambda w: {"mechanism": "PLAIN"}),
    Scenario("a mechanism that is none", HANDSHAKE, lambda w: {"mechanism": "no such"}),
    Scenario("no mechanism", HANDSHAKE, lambda w: {"mechanism": ""}),
    Scenario("a token", AUTHENTICATE, lambda w: {"auth_bytes": b"\0user\0password"}),
    Scenario("an empty token", AUTHENTICATE, lambda w: {"auth_bytes": b""}),
)

SCENARIOS = SASL
