"""The checks of tokens of OAUTHBEARER, off the event loop. The thread that checks passwords does them: both cost CPU before
authentication."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from services.gateway.core.bearer_token import InvalidToken, TokenRules, ValidToken, verified
from services.gateway.peers.signing_keys import SigningKeyReader


class TokenVerifier:
    """That of one listener."""

    def __init__(
        self, keys: SigningKeyReader, rules: TokenRules, threads: ThreadPoolExecutor, now_s: Callable[[], float]
    ) -> None:
        """`now_s`: seconds since the epoch."""
        import jwt  # noqa: F401  now, and not when the first client waits for it

        self._keys = keys
        self._rules = rules
        self._threads = threads
        self._now_s = now_s
        self._loop = asyncio.get_running_loop()

    async def verify(self, token: str) -> ValidToken | InvalidToken:
        keys = self._keys.current
        outcome = await self._verify(token)
        if isinstance(outcome, InvalidToken) and outcome.key_is_unknown:
            await self._keys.read_again()
            if self._keys.current is not keys:
                return await self._verify(token)
        return outcome

    async def _verify(self, token: str) -> ValidToken | InvalidToken:
        keys, now_s = self._keys.current, self._now_s()
        return await self._loop.run_in_executor(self._threads, verified, token, keys, self._rules, now_s)
