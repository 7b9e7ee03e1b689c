"""Shortcuts: ways to begin or answer a request that repeats an earlier one, or that needs no task. Each has `match` and `begin`
(`services/gateway/exchange/exchange.py:Shortcut`). It imports `fetch`, `groups`, `produce` and `data_path`."""
