"""Java's clients on a listener with SASL: by a token, and again before a session ends."""

import asyncio
from pathlib import Path

from libs.cluster.scram_credentials import SCRAM_SHA_256
from tests.compat.kafka.jars import KafkaJars
from tests.compat.kafka.tools import TOOL, TOOLS, run_tool
from tests.gateway.conftest import TOPIC, Rig
from tests.gateway.sasl_rig import SASL_AT, SECRET, started
from tests.gateway.token_issuer import token
from tests.gateway.token_listener import OAUTHBEARER, keys, with_tokens
from tests.support.polling import until
from tests.support.requirements import ROOT, require

__all__ = ["keys"]

SESSION_S = 2.0
JAVA = "org.apache.kafka.common.security.oauthbearer"


async def test_java_is_let_in(rig: Rig, keys: Path, tmp_path: Path) -> None:
    gateway = await with_tokens(rig, keys)
    file, config = tmp_path / "token.jwt", tmp_path / "java.properties"
    settings = {
        "bootstrap.servers": f"127.0.0.1:{rig.port_base + SASL_AT}",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": OAUTHBEARER,
        "sasl.login.callback.handler.class": f"{JAVA}.OAuthBearerLoginCallbackHandler",
        "sasl.oauthbearer.jwt.retriever.class": f"{JAVA}.FileJwtRetriever",
        "sasl.oauthbearer.token.endpoint.url": f"file://{file}",
        "sasl.jaas.config": f"{JAVA}.OAuthBearerLoginModule required;",
        "enable.idempotence": "false",
        "acks": "1",
    }

    def produce() -> str:
        file.write_text(token(), encoding="utf-8")
        config.write_text("".join(f"{name}={value}\n" for name, value in settings.items()), encoding="utf-8")
        sent = (
            "--topic",
            TOPIC,
            "--num-records",
            "1",
            "--throughput",
            "-1",
            "--record-size",
            "10",
            "--command-config",
            str(config),
        )
        allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=file://{file}"
        return run_tool("kafka-producer-perf-test", *sent, options=(*TOOL, allowed)).text

    assert "1 records sent" in await asyncio.to_thread(produce)
    assert (gateway.meters.authentications > 0, gateway.meters.failed_authentications) == (True, 0)


async def test_java_authenticates_again(rig: Rig, tmp_path: Path) -> None:
    gateway = await started(rig, reauthentication_s_max=SESSION_S, authentication_s_max=60.0)
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    login = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": SCRAM_SHA_256,
        "sasl.jaas.config": f'{module} required username="u" password="{SECRET}";',
    }
    settings = {**login, "bootstrap.servers": f"127.0.0.1:{rig.port_base + SASL_AT}", "enable.idempotence": "false", "acks": "1"}
    config = tmp_path / "java.properties"
    config.write_text("".join(f"{name}={value}\n" for name, value in settings.items()), encoding="utf-8")
    sent = ("--topic", TOPIC, "--num-records", "1000000", "--throughput", "10", "--record-size", "10")
    require("java", "kafka")
    command = KafkaJars(ROOT).command(TOOLS["kafka-producer-perf-test"], *sent, "--command-config", str(config), options=TOOL)
    running = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL)
    try:
        await until(lambda: gateway.meters.reauthentications > 0)
    finally:
        running.kill()
        await running.wait()
    meters = gateway.meters
    assert (meters.failed_authentications, meters.failed_reauthentications) == (0, 0)
