"""A rig whose gateway has listeners with TLS."""

from pathlib import Path

import pytest

from services.gateway.service import Gateway
from tests.gateway import sasl_rig
from tests.gateway.conftest import Rig
from tests.gateway.sasl_rig import SASL_AT

TLS_AT = 7
"""The place of the SSL listener among the rig's ports."""


async def started(rig: Rig, keystore: Path, **changes: object) -> Gateway:
    """A gateway with an SSL listener beside the plain one."""
    settings = {"ssl_listener": f"SSL://127.0.0.1:{rig.port_base + TLS_AT}", "ssl_keystore_location": str(keystore)}
    return await rig.start(**{**settings, **changes})


async def started_with_sasl(rig: Rig, keystore: Path, **changes: object) -> Gateway:
    """A gateway with a SASL_SSL listener. `u` is a user."""
    settings = {"sasl_listener": f"SASL_SSL://127.0.0.1:{rig.port_base + SASL_AT}", "ssl_keystore_location": str(keystore)}
    return await sasl_rig.started(rig, **{**settings, "sasl_plain_without_tls": False, **changes})


def shown(gateway: Gateway) -> list[dict[str, object]]:
    views = gateway.connection_views.connections()
    assert isinstance(views, dict)
    return list(views["connections"])


def closed_lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    lines = [record.fields for record in caplog.records if record.getMessage() == "client connection closed"]  # type: ignore[attr-defined]
    return [f"{fields['reason']}: {fields['detail']}" for fields in lines]
