"""JSON as the admin port answers it."""

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aiohttp import web


def json_answer(value: object, status: int = 200) -> "web.Response":
    from aiohttp import web

    return web.Response(text=json_text(value), status=status, content_type="application/json")


def json_text(value: object) -> str:
    """JSON has no infinity, and no NaN: they are texts, such as "Infinity"."""
    try:
        text = json.dumps(value, default=_plain, indent=2, allow_nan=False)
    except ValueError:
        finite = json.loads(json.dumps(value, default=_plain), parse_constant=str)
        text = json.dumps(finite, indent=2)
    return f"{text}\n"


def _plain(value: object) -> object:
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=repr)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value).hex()
    return repr(value)
