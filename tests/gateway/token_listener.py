"""A listener with OAUTHBEARER, which takes its keys from a file."""

from pathlib import Path

import pytest

from libs.cluster.scram_credentials import SCRAM_SHA_256
from services.gateway.service import Gateway
from tests.gateway.conftest import Rig
from tests.gateway.sasl_rig import started
from tests.gateway.token_issuer import AUDIENCE, ISSUER, key_set, public_jwk

OAUTHBEARER = "OAUTHBEARER"


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    path = tmp_path / "keys.json"
    path.write_bytes(key_set(public_jwk("RSA", "k")))
    return path


async def with_tokens(rig: Rig, keys: Path, **changes: object) -> Gateway:
    settings = {
        "sasl_enabled_mechanisms": (OAUTHBEARER, SCRAM_SHA_256),
        "sasl_oauthbearer_without_tls": True,
        "sasl_oauthbearer_jwks_endpoint_url": f"file://{keys}",
        "sasl_oauthbearer_expected_issuer": ISSUER,
        "sasl_oauthbearer_expected_audience": (AUDIENCE,),
    }
    return await started(rig, **{**settings, **changes})
