"""First tokens of SCRAM, as Kafka's own server takes them. The JVM takes about two seconds of CPU."""

import subprocess
from pathlib import Path

from libs.cluster.scram_credentials import SCRAM_SHA_256
from services.gateway.core.authentication import MECHANISMS, Accepted, SaslExchange
from tests.compat.kafka.archives import BRIEF
from tests.compat.kafka.jars import KafkaJars
from tests.gateway.sasl_users import known, put
from tests.support.requirements import ROOT, require

USERS = ["u", "a,b", "a=b", "=2C"]
HEADERS = [
    "n,,",
    "n,a=u,",
    "n,a=other,",
    "n,a=U,",
    "n,a=a=2Cb,",
    "n,a=a=3Db,",
    "n,a==2C,",
    "n,a==3D2C,",
    "n,a=,",
    "n,u,",
    "p=tls-unique,a=u,",
]
NAMES = ["u", "a=2Cb", "a=3Db", "=3D2C"]
TOKENS = [f"{header}n={name},r=nonce-of-a-client" for header in HEADERS for name in NAMES]


def answered(first: str) -> str:
    credentials = known()
    for user in USERS:
        put(credentials, user, SCRAM_SHA_256)
    server = SaslExchange(MECHANISMS, credentials, lambda: "nonce-of-the-gateway")
    server.handshake(SCRAM_SHA_256)
    outcome = server.take(first.encode())
    if isinstance(outcome, Accepted):
        return "asked"
    heard = outcome.message
    return f"denied {heard}" if "authorization id" in heard else "denied"


def test_authorization_ids_are_taken_as_by_kafka() -> None:
    require("java", "kafka")
    program = str(Path(__file__).parent / "KafkaScram.java")
    argv = [*KafkaJars(ROOT).command("", options=BRIEF)[:-1], program, str(len(USERS)), *USERS, *TOKENS]
    printed = subprocess.run(argv, capture_output=True, encoding="utf-8", check=True).stdout.splitlines()
    ours = [answered(token) for token in TOKENS]
    assert dict(zip(TOKENS, ours, strict=True)) == dict(zip(TOKENS, printed, strict=True))
    assert {"asked", "denied"} < set(ours)
