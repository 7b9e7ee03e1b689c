"""AlterUserScramCredentials and DescribeUserScramCredentials: the answers, and what the controller is asked."""

import hashlib
from typing import Any

from libs.cluster.scram_credentials import derived
from libs.rpc.contracts.controller import (
    AlterScramCredentials,
    AlterScramCredentialsReply,
    DescribeScramCredentials,
    DescribeScramCredentialsReply,
    ScramDeletion,
    ScramResult,
    ScramUpsertion,
    ScramUser,
)
from libs.rpc.messages.errors import RpcError
from libs.wire.api_keys import ApiKey
from libs.wire.errors import ErrorCode
from libs.wire.messages import alter_user_scram_credentials as alter
from libs.wire.messages import describe_user_scram_credentials as describe
from libs.wire.primitives import Reader, Writer
from services.gateway.exchange.request_context import ControllerUnavailable
from services.gateway.handlers import SERVED
from tests.gateway.fake_gateway import Cluster, FakeGateway, context

SALTED = hashlib.pbkdf2_hmac("sha256", b"the password", b"sixteen bytes of", 4096)


async def ask(gateway: FakeGateway, key: ApiKey, codec: Any, request: Any) -> Any:
    """The response as a client reads it."""
    writer = Writer()
    codec.write_request(writer, request, 0)
    row = SERVED[key]
    response = await row.handle(gateway, context(0), row.api.read(memoryview(writer.buffer), 0))
    reader = Reader(memoryview(row.written(0, 1, response))[9:])
    answer = codec.read_response(reader, 0)
    reader.expect_end()
    return answer


async def altered(gateway: FakeGateway, *changes: Any) -> list[tuple[str, int, str | None]]:
    deletions = [each for each in changes if isinstance(each, alter.ScramCredentialDeletion)]
    upsertions = [each for each in changes if isinstance(each, alter.ScramCredentialUpsertion)]
    request = alter.AlterUserScramCredentialsRequest(deletions, upsertions)
    response = await ask(gateway, ApiKey.ALTER_USER_SCRAM_CREDENTIALS, alter, request)
    return [(each.user, each.error_code, each.error_message) for each in response.results]


async def described(gateway: FakeGateway, *users: str) -> Any:
    request = describe.DescribeUserScramCredentialsRequest([describe.UserName(user) for user in users] or None)
    return await ask(gateway, ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, describe, request)


async def test_the_controller_gets_keys_and_never_a_salted_password() -> None:
    gateway = FakeGateway(Cluster())
    asked: list[Any] = []

    def answer(method: str, body: Any) -> Any:
        asked.append(body)
        return AlterScramCredentialsReply((ScramResult("u", 0), ScramResult("v", 91, "not there")), 7)

    gateway.on_controller = answer
    upsertion = alter.ScramCredentialUpsertion("u", 1, 4096, b"sixteen bytes of", SALTED)
    unknown = alter.ScramCredentialUpsertion("w", 9, 1, b"", SALTED)
    results = await altered(gateway, alter.ScramCredentialDeletion("v", 2), upsertion, unknown)
    assert results == [("u", 0, None), ("v", 91, "not there")]
    stored_key, server_key = derived("SCRAM-SHA-256", SALTED)
    assert asked == [
        AlterScramCredentials(
            (ScramDeletion("v", 2),),
            (
                ScramUpsertion("u", 1, 4096, b"sixteen bytes of", stored_key, server_key),
                ScramUpsertion("w", 9, 1, b"", b"", b""),
            ),
        )
    ]


async def test_a_controller_that_cannot_be_asked_is_an_error_for_each_user() -> None:
    gateway = FakeGateway(Cluster())

    def fail(method: str, body: Any) -> Any:
        raise ControllerUnavailable("none")

    gateway.on_controller = fail
    deletions = [alter.ScramCredentialDeletion(user, 1) for user in ("u", "v", "u")]
    assert [(user, error) for user, error, _ in await altered(gateway, *deletions)] == [("u", 7), ("v", 7)]
    response = await described(gateway)
    assert (response.error_code, response.results) == (ErrorCode.REQUEST_TIMED_OUT, [])
    assert await altered(gateway) == []


async def test_users_are_described_as_by_kafka() -> None:
    gateway = FakeGateway(Cluster())

    def answer(method: str, body: Any) -> Any:
        assert body == DescribeScramCredentials()
        return DescribeScramCredentialsReply((ScramUser("u", ((1, 4096), (2, 8192))), ScramUser("v", ((2, 4096),))), 7)

    gateway.on_controller = answer
    everyone = await described(gateway)
    assert [(each.user, each.error_code) for each in everyone.results] == [("u", 0), ("v", 0)]
    infos = [[(info.mechanism, info.iterations) for info in each.credential_infos] for each in everyone.results]
    assert infos == [[(1, 4096), (2, 8192)], [(2, 4096)]]
    named = await described(gateway, "v", "u", "nobody", "u")
    assert [(each.user, each.error_code, each.error_message) for each in named.results] == [
        ("v", 0, None),
        ("u", 92, "Cannot describe SCRAM credentials for the same user twice in a single request: u"),
        ("nobody", 91, "Attempt to describe a user credential that does not exist: nobody"),
    ]


async def test_a_refusal_of_the_controller_is_the_answer() -> None:
    gateway = FakeGateway(Cluster())

    def refuse(method: str, body: Any) -> Any:
        raise RpcError(int(ErrorCode.NOT_CONTROLLER), "not me")

    gateway.on_controller = refuse
    response = await described(gateway, "u")
    assert (response.error_code, response.error_message) == (ErrorCode.NOT_CONTROLLER, "not me")
