"""A change that is more than the metadata store takes at once is refused in words."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

from libs.cluster.memory.memory_store import MemoryStore
from libs.cluster.store import Put
from libs.rpc.contracts.controller import ALTER_CONFIGS, AlterConfigs
from libs.rpc.messages.schema import pack
from libs.wire.errors import ErrorCode
from services.controller.api import methods
from tests.cluster.conftest import run_virtually


def test_configs_of_more_than_a_megabyte_are_an_invalid_request() -> None:
    async def scenario() -> None:
        async def administer(job: Any, check: Callable[[], None]) -> object:
            return await MemoryStore().txn([], [Put("/penstock/config", b"x" * 1_000_001)])

        failures: list[tuple[int, str]] = []
        call = SimpleNamespace(body=pack(AlterConfigs(())), fail=lambda code, message: failures.append((code, message)))
        controller: Any = Mock(administer=administer)
        answering: Any = methods(controller, Mock())[ALTER_CONFIGS](call)  # type: ignore[arg-type]
        await answering
        ((code, message),) = failures
        assert code == ErrorCode.INVALID_REQUEST
        assert message.startswith("It is more than the metadata store takes at once: a transaction of 10000")

    run_virtually(scenario())
