"""How others see and change the log levels of this process: gateways by RPC, operators at `/debug/log-levels`."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from libs.rpc.contracts.log_levels import CHANGE, DESCRIBE, ChangeLogLevels, LogLevels
from libs.rpc.messages.errors import ContractError
from libs.rpc.messages.schema import unpack
from libs.rpc.server.call import Call
from libs.rpc.server.rpc_server import Accept
from libs.runtime.json_answers import json_answer
from libs.telemetry import log_levels

if TYPE_CHECKING:
    from aiohttp import web


def _describe(call: Call) -> None:
    call.reply(_levels())


def _change(call: Call) -> None:
    asked = unpack(ChangeLogLevels, call.body)
    known = log_levels.logger_names()
    for change in asked.changes:
        if change.logger in known:
            try:
                log_levels.set_level(change.logger, change.level, asked.asked_by)
            except log_levels.Refused as refusal:
                raise ContractError(str(refusal)) from refusal
    call.reply(_levels())


def _levels() -> LogLevels:
    return LogLevels(tuple(log_levels.levels().items()))


METHODS: Final[Mapping[str, Accept]] = {DESCRIBE: _describe, CHANGE: _change}
"""What every process answers."""


async def show_levels(request: "web.Request") -> "web.Response":
    return json_answer(log_levels.levels())


async def change_level(request: "web.Request") -> "web.Response":
    """PUT gives `logger` a `level` of its own, and DELETE takes it away."""
    query = request.query
    wanted = {"logger", "level"} if request.method == "PUT" else {"logger"}
    if set(query) != wanted or len(query) != len(wanted):
        return json_answer({"error": f"{request.method} takes these parameters, each once: {', '.join(sorted(wanted))}"}, 400)
    name, level = query["logger"], query.get("level")
    try:
        log_levels.set_level(name, _upper(level) if level is not None else None, f"admin port, {request.remote}")
    except log_levels.Refused as refusal:
        return json_answer({"error": str(refusal)}, 400)
    return json_answer({name: log_levels.levels()[name]})


def _upper(level: str) -> str:
    """Levels are ASCII. Other letters may have an upper case in it: a dotless i has I."""
    return level.upper() if level.isascii() else level
