"""ApiVersions (18), versions 0-4.

v1 throttle time · v2 throttling after the answer · v3 flexible, client software name and version, features · v4 features whose
lowest level is 0.

A version that we do not serve is answered with UNSUPPORTED_VERSION in version 0's form, holding the one entry {18, 0, 4}, from
which clients choose their next attempt (KIP-511). A client software name or version outside Kafka's pattern: INVALID_REQUEST.

Differences from Kafka: no features are listed. metadata.version is KRaft's own. group.version is for the protocols of groups,
about which a config decides here, and transaction.version for transactions, which are not served yet; Kafka's clients take a
feature that is missing as level 0.
"""

import re
from collections.abc import Iterable

from libs.wire.api import ApiKey
from libs.wire.errors import ErrorCode
from libs.wire.messages import api_versions
from libs.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from libs.wire.primitives import Reader, Writer
from services.gateway.api import Api
from services.gateway.state import RequestContext

MIN_VERSION, MAX_VERSION = 0, 4

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?", re.ASCII)


def read_request(reader: Reader, version: int) -> ApiVersionsRequest:
    """The body of a version that we do not know is not looked at."""
    if not MIN_VERSION <= version <= MAX_VERSION:
        reader.position = reader.end
        return ApiVersionsRequest()
    return api_versions.read_request(reader, version)


def write_response(writer: Writer, response: ApiVersionsResponse, version: int) -> None:
    api_versions.write_response(writer, response, version if MIN_VERSION <= version <= MAX_VERSION else 0)


def answer(context: RequestContext, request: ApiVersionsRequest, apis: Iterable[Api]) -> ApiVersionsResponse:
    """Remembers the client's software in `context`."""
    if not MIN_VERSION <= context.api_version <= MAX_VERSION:
        ours = ApiVersion(ApiKey.API_VERSIONS, MIN_VERSION, MAX_VERSION)
        return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[ours])
    if context.api_version >= 3:
        name, version = request.client_software_name, request.client_software_version
        if not (_SOFTWARE.fullmatch(name) and _SOFTWARE.fullmatch(version)):
            return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
        context.software_name, context.software_version = name, version
    return ApiVersionsResponse(
        api_keys=[ApiVersion(api.key, api.advertised_min_version, api.max_version) for api in sorted(apis, key=lambda a: a.key)]
    )
