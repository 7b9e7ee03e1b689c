"""Where responses have their throttle time, against kio's bytes of every API and version that is served."""

import dataclasses
import datetime
import struct

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from libs.wire.api_keys import ApiKey, response_header_version
from libs.wire.apis import APIS
from libs.wire.throttle_time import throttle_time_at, with_throttle_time
from tests.wire.kio_messages import decode, encode, message_class, messages

CASES = [
    pytest.param(api.key, version, id=f"{api.key.name.lower()}-v{version}")
    for api in APIS.values()
    for version in range(api.min_version, api.max_version + 1)
]
THROTTLED = datetime.timedelta(milliseconds=7_654_321)


@pytest.mark.parametrize(("key", "version"), CASES)
@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_a_throttle_time_that_is_written_later_is_where_clients_read_it(key: ApiKey, version: int, data: st.DataObject) -> None:
    cls = message_class(key.name.lower(), "response", version)
    message = data.draw(messages(cls))
    has_one = any(field.name == "throttle_time" for field in dataclasses.fields(cls))
    if has_one:
        message = dataclasses.replace(message, throttle_time=datetime.timedelta(0))
    assume(all(endpoint.port & 0xFFFFFF for endpoint in getattr(message, "node_endpoints", ())))
    body = encode(message)
    header = struct.pack(">i", 9) + b"\0" * response_header_version(key, version)
    frame = struct.pack(">i", len(header) + len(body)) + header + body
    at = throttle_time_at(key, version, frame)
    if at < 0:
        assert not has_one or key is ApiKey.API_VERSIONS or getattr(message, "node_endpoints", ())
        return
    written = decode(cls, bytes(with_throttle_time(frame, at, 7_654_321))[4 + len(header) :])
    assert written.throttle_time == THROTTLED
    assert dataclasses.replace(written, throttle_time=message.throttle_time) == message
