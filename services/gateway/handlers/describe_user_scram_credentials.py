"""DescribeUserScramCredentials (50), version 0 (KIP-554): users' mechanisms and iterations, as the controller reads them.

v0 flexible.

Differences from Kafka: none.
"""

from collections import Counter
from typing import Final

from libs.rpc.contracts.controller import (
    DESCRIBE_SCRAM_CREDENTIALS,
    DescribeScramCredentials,
    DescribeScramCredentialsReply,
)
from libs.wire.api_keys import ApiKey
from libs.wire.apis import APIS
from libs.wire.errors import ErrorCode
from libs.wire.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from services.gateway.data_path.served_api import ServedApi
from services.gateway.exchange.request_context import GatewayState, RequestContext
from services.gateway.peers.controller_requests import RequestFailed, ask

_TWICE: Final = "Cannot describe SCRAM credentials for the same user twice in a single request: "
_UNKNOWN: Final = "Attempt to describe a user credential that does not exist: "


async def handle(
    gateway: GatewayState, context: RequestContext, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    question = DescribeScramCredentials()
    try:
        reply = await ask(gateway, context, DESCRIBE_SCRAM_CREDENTIALS, question, DescribeScramCredentialsReply)
    except RequestFailed as failure:
        return DescribeUserScramCredentialsResponse(error_code=failure.error, error_message=failure.message)
    known = {each.user: each.credentials for each in reply.users}
    named = Counter([each.name for each in request.users]) if request.users else Counter([*known])
    return DescribeUserScramCredentialsResponse(
        results=[_described(user, times, known.get(user)) for user, times in named.items()]
    )


def _described(user: str, times: int, credentials: tuple[tuple[int, int], ...] | None) -> DescribeUserScramCredentialsResult:
    if times > 1:
        return DescribeUserScramCredentialsResult(user, ErrorCode.DUPLICATE_RESOURCE, _TWICE + user)
    if credentials is None:
        return DescribeUserScramCredentialsResult(user, ErrorCode.RESOURCE_NOT_FOUND, _UNKNOWN + user)
    infos = [CredentialInfo(mechanism, iterations) for mechanism, iterations in credentials]
    return DescribeUserScramCredentialsResult(user, credential_infos=infos)


SERVED_API: Final = ServedApi(APIS[ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS], handle)
