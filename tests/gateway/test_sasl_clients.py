"""Real clients log in at a gateway of this process: each mechanism, and a wrong password."""

import asyncio

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError as AioKafkaError
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tests.compat.clients.kafka_python import KafkaProducer
from tests.compat.kafka.tools import run_kcat
from tests.gateway.conftest import TOPIC, Rig
from tests.gateway.sasl_rig import ALL, SASL_AT, SECRET, started
from tests.support.polling import rounds


def librdkafka(bootstrap: str, mechanism: str, password: str) -> bool:
    """Whether it is let in."""
    told: list[str] = []
    login = {"sasl.mechanism": mechanism, "sasl.username": "u", "sasl.password": password}
    settings = {"bootstrap.servers": bootstrap, "security.protocol": "SASL_PLAINTEXT", **login}
    admin = AdminClient({**settings, "error_cb": lambda error: told.append(error.name())})
    for _ in rounds("a listing, or a denial"):
        try:
            return TOPIC in admin.list_topics(timeout=0.5).topics
        except KafkaException:
            admin.poll(0.1)
            if "_AUTHENTICATION" in told:
                return False
    raise AssertionError(told)


def python(bootstrap: str, mechanism: str, password: str) -> dict[str, str]:
    """The arguments of kafka-python and aiokafka."""
    login = {"sasl_mechanism": mechanism, "sasl_plain_username": "u", "sasl_plain_password": password}
    return {"bootstrap_servers": bootstrap, "security_protocol": "SASL_PLAINTEXT", **login}


def kcat(bootstrap: str, mechanism: str, password: str) -> bool:
    """Whether it is let in. Debian's has an old librdkafka."""
    login = {"sasl.mechanism": mechanism, "sasl.username": "u", "sasl.password": password, "security.protocol": "SASL_PLAINTEXT"}
    settings = [word for name, value in login.items() for word in ("-X", f"{name}={value}")]
    result = run_kcat("-L", "-m", "60" if password == SECRET else "1", "-b", bootstrap, *settings, check=False)
    return f'topic "{TOPIC}"' in result.text


def kafka_python(bootstrap: str, mechanism: str) -> bool:
    """Only with the right password: it leaves its sockets open where it is denied."""
    producer = KafkaProducer(**python(bootstrap, mechanism, SECRET))
    partitions = producer.partitions_for(TOPIC)
    producer.close()
    return len(partitions) == 3


async def aiokafka(bootstrap: str, mechanism: str, password: str) -> bool:
    producer = AIOKafkaProducer(**python(bootstrap, mechanism, password))
    try:
        await producer.start()
    except AioKafkaError:
        return False
    finally:
        await producer.stop()
    return True


@pytest.mark.parametrize("mechanism", ALL)
async def test_clients_log_in_and_are_denied(rig: Rig, mechanism: str) -> None:
    gateway = await started(rig)
    bootstrap = f"127.0.0.1:{rig.port_base + SASL_AT}"
    assert await asyncio.to_thread(librdkafka, bootstrap, mechanism, SECRET)
    assert await asyncio.to_thread(kcat, bootstrap, mechanism, SECRET)
    assert await asyncio.to_thread(kafka_python, bootstrap, mechanism)
    assert await aiokafka(bootstrap, mechanism, SECRET)
    logins, denials = gateway.meters.authentications, gateway.meters.failed_authentications
    assert (logins >= 3, denials) == (True, 0)
    assert not await asyncio.to_thread(librdkafka, bootstrap, mechanism, "wrong")
    assert not await asyncio.to_thread(kcat, bootstrap, mechanism, "wrong")
    assert not await aiokafka(bootstrap, mechanism, "wrong")
    assert gateway.meters.authentications == logins
    assert gateway.meters.failed_authentications >= 2
