"""ApiVersions: what is advertised, and the one API that answers versions which nobody has."""

import struct

from tests.compat.differential.messages import framed
from tests.compat.differential.scenario import ABSENT, Differs, Scenario
from tests.compat.differential.systems import ASKED

API = "api_versions"
GOOD = {"client_software_name": "differential", "client_software_version": "1.0"}


def bare(version: int, body: bytes = b"") -> bytes:
    return framed(struct.pack(">hhih", 18, version, ASKED, -1) + body)


def software(name: str, version: str):
    return lambda world: {"client_software_name": name, "client_software_version": version}


SCENARIOS = (
    Scenario(
        "what is served",
        API,
        lambda w: GOOD,
        differs=(
            Differs("not-built-yet", "api_keys.*", penstock=ABSENT),
            Differs("api-versions-features", "supported_features|finalized_features|finalized_features_epoch"),
        ),
    ),
    Scenario("version 5", API, lambda w: bare(5, b"\0"), versions=[5], answer_version=0),
    Scenario("version 5 with a body", API, lambda w: bare(5, b"\0\x02a\x02b\0"), versions=[5], answer_version=0),
    Scenario("version 32767", API, lambda w: bare(32767), versions=[32767], answer_version=0),
    Scenario("version -1", API, lambda w: bare(-1), versions=[-1], answer_version=0),
    Scenario("no software name", API, software("", "1.0"), versions=[3, 4]),
    Scenario("no software version", API, software("x", ""), versions=[3, 4]),
    Scenario("a software name with a blank", API, software("a b", "1.0"), versions=[3, 4]),
    Scenario("a software name that begins with a dash", API, software("-a", "1.0"), versions=[3, 4]),
    Scenario("a software version that ends with a dot", API, software("a", "1."), versions=[3, 4]),
    Scenario("a software version with a newline", API, software("a", "1.0\n"), versions=[3, 4]),
    Scenario("a software name with a letter that is not ASCII", API, software("é", "1.0"), versions=[3, 4]),
)
