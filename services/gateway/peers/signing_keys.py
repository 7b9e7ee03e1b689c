"""The keys by which tokens of OAUTHBEARER are checked, read from a file or an https endpoint, and kept up to date.

They are read in a thread of their own: at the start, at intervals, and when a token names a key that is not there. The last is
limited, since anybody can send such a token. When reading fails, the last keys stay.
"""

import asyncio
import http.client
import logging
import ssl
import time
from concurrent.futures import ThreadPoolExecutor
from math import inf
from pathlib import Path
from typing import Final

from libs.telemetry.logs import fields
from services.gateway.core.oauthbearer_settings import KeyEndpoint, KeyFile, KeySource
from services.gateway.core.signing_keys import DOCUMENT_BYTES_MAX, NO_KEYS, SigningKeys, UnusableKeys, read_keys
from services.gateway.gateway_meters import GatewayMeters

log = logging.getLogger("network")

UNKNOWN_KEY_S_MIN: Final = 10.0
"""The least time between two reads for the sake of tokens."""
RETRY_S: Final = 10.0
ANSWER_S_MAX: Final = 5.0
"""The longest wait for an endpoint to connect, and then for each part of its answer."""
READ_S_MAX: Final = 10.0
PART_BYTES: Final = 16_384


class SigningKeyReader:
    """Call `start`, later `close`."""

    def __init__(self, source: KeySource, refresh_s: float, meters: GatewayMeters) -> None:
        self._source = source
        self._refresh_s = refresh_s
        self._meters = meters
        self._thread = ThreadPoolExecutor(1, "signing keys")
        self._loop = asyncio.get_running_loop()
        self._reading: asyncio.Task[None] | None = None
        self._began_at = -inf
        self._timer: asyncio.TimerHandle | None = None
        self.current: SigningKeys = NO_KEYS
        """Tokens are invalid while there are none."""

    def start(self) -> None:
        """Begins to read. It does not wait: a gateway serves other mechanisms while an endpoint is away."""
        self._begin()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._reading is not None:
            self._reading.cancel()
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def read_again(self) -> None:
        """For a token of an unknown key. Returns when the keys were read, or at once if that was tried a moment ago."""
        if self._reading is None and self._loop.time() - self._began_at >= UNKNOWN_KEY_S_MIN:
            self._begin()
        if self._reading is not None:
            await asyncio.wait([self._reading])

    def _begin(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._began_at = self._loop.time()
        self._reading = self._loop.create_task(self._read(), name="signing keys")

    def _begin_unless_reading(self) -> None:
        if self._reading is None:
            self._begin()

    async def _read(self) -> None:
        wait_s = RETRY_S
        try:
            self.current = await self._loop.run_in_executor(self._thread, keys_of, self._source)
            wait_s = self._refresh_s
            log.info("signing keys read", extra=fields(source=_named(self._source), keys=len(self.current)))
        except (OSError, ValueError, http.client.HTTPException, UnusableKeys) as error:
            self._meters.unread_signing_keys += 1
            details = fields(source=_named(self._source), reason=str(error) or type(error).__name__, kept=len(self.current))
            log.warning("signing keys not read", extra=details)
        finally:
            self._reading = None
        self._timer = self._loop.call_later(wait_s, self._begin_unless_reading)


def _named(source: KeySource) -> str:
    """Without the query, which may hold an API key."""
    return source.path if isinstance(source, KeyFile) else f"https://{source.host}:{source.port}{source.target.partition('?')[0]}"


def keys_of(source: KeySource) -> SigningKeys:
    """Raises OSError, ValueError for a name that no host has, HTTPException and UnusableKeys. It blocks."""
    return read_keys(_in_file(source) if isinstance(source, KeyFile) else _at_endpoint(source))


def _in_file(source: KeyFile) -> bytes:
    with Path(source.path).open("rb") as file:
        return file.read(DOCUMENT_BYTES_MAX + 1)


def _at_endpoint(source: KeyEndpoint) -> bytes:
    ends_at = time.monotonic() + READ_S_MAX
    context = ssl.create_default_context(cafile=source.ca_file or None)
    connection = http.client.HTTPSConnection(source.host, source.port, timeout=ANSWER_S_MAX, context=context)
    try:
        connection.request("GET", source.target, headers={"Accept": "application/json", "Connection": "close"})
        response = connection.getresponse()
        if response.status != http.client.OK:
            raise UnusableKeys(f"the answer is {response.status}")
        document = b""
        while len(document) <= DOCUMENT_BYTES_MAX and (part := response.read1(PART_BYTES)):
            document += part
            if time.monotonic() > ends_at:
                raise TimeoutError(f"no answer within {READ_S_MAX:.0f} s")
        return document
    finally:
        connection.close()
