"""AlterUserScramCredentials (51), version 0 (KIP-554). The controller decides.

v0 flexible.

The gateway makes StoredKey and ServerKey of each salted password, which goes no further than this.

Differences from Kafka: a salt has 12 bytes at least, a user's name is as SASLprep leaves it, and a request changes the
credentials of 60 users at most.
"""

from typing import Final

from libs.cluster.scram_credentials import MECHANISMS, derived
from libs.rpc.contracts.controller import (
    ALTER_SCRAM_CREDENTIALS,
    AlterScramCredentials,
    AlterScramCredentialsReply,
    ScramDeletion,
    ScramUpsertion,
)
from libs.wire.api_keys import ApiKey
from libs.wire.apis import APIS
from libs.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialUpsertion,
)
from services.gateway.data_path.served_api import ServedApi
from services.gateway.exchange.request_context import GatewayState, RequestContext
from services.gateway.peers.controller_requests import RequestFailed, ask


async def handle(
    gateway: GatewayState, context: RequestContext, request: AlterUserScramCredentialsRequest
) -> AlterUserScramCredentialsResponse:
    deletions = tuple([ScramDeletion(each.name, each.mechanism) for each in request.deletions])
    upsertions = tuple([_upsertion(each) for each in request.upsertions])
    if not deletions and not upsertions:
        return AlterUserScramCredentialsResponse()
    change = AlterScramCredentials(deletions, upsertions)
    try:
        reply = await ask(gateway, context, ALTER_SCRAM_CREDENTIALS, change, AlterScramCredentialsReply)
    except RequestFailed as failure:
        users = dict.fromkeys([each.user for each in deletions] + [each.user for each in upsertions])
        failed = [AlterUserScramCredentialsResult(user, failure.error, failure.message) for user in users]
        return AlterUserScramCredentialsResponse(results=failed)
    return AlterUserScramCredentialsResponse(
        results=[AlterUserScramCredentialsResult(each.user, each.error, each.message) for each in reply.users]
    )


def _upsertion(asked: ScramCredentialUpsertion) -> ScramUpsertion:
    mechanism = MECHANISMS.get(asked.mechanism)
    stored_key, server_key = derived(mechanism, bytes(asked.salted_password)) if mechanism is not None else (b"", b"")
    return ScramUpsertion(asked.name, asked.mechanism, asked.iterations, bytes(asked.salt), stored_key, server_key)


SERVED_API: Final = ServedApi(APIS[ApiKey.ALTER_USER_SCRAM_CREDENTIALS], handle)
