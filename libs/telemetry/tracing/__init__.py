"""Traces: spans, their ids and names, and which requests have any. Spans are made after the fact, from stage times.

`recorder.py` joins clocks and a sink to the rest, which is pure. Nothing here imports OpenTelemetry: an exporter does, where
exporting is on.
"""
