"""The errors in an answer of any API, wherever it has them."""

from libs.wire.api_keys import ApiKey, is_flexible, response_header_version
from tests.dev.bounds.connection import errors_in, message_of
from tests.dev.bounds.schema_codec import read
from tests.gateway.kafka_client import RawClient


async def errors_of(client: RawClient, key: ApiKey, version: int) -> list[int]:
    """The error codes of the next answer."""
    _, reader = await client.answer()
    if response_header_version(key, version) == 1:
        reader.skip_tagged_fields()
    answer = read(message_of(key, "response", version), reader, flexible=is_flexible(key, version))
    return [code for _, code in errors_in(answer) if code]
