"""Shortcuts: ways to begin or answer a request that repeats an earlier one, or that needs no task.

Those of Produce, Fetch and relayed requests need no parsing (`services/gateway/exchange/exchange.py:Shortcut`). That of
ListOffsets recognises a parsed request (`services/gateway/data_path/served_api.py:RequestShortcut`). The other modules look up or
ask for them. It imports `fetch`, `groups`, `produce` and `data_path`."""
