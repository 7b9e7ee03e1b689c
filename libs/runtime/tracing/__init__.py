"""The traces of a process: its settings, its ring and exporter, and what the admin port shows of them.

`trace_settings.py`, `trace_views.py` and `trace_page.py` are pure. It may import libs/rpc and libs/telemetry.
"""
