"""Spans leave the process: a bounded queue and a thread that sends them, by OTLP or in Zipkin's format.

Only `otlp.py` imports OpenTelemetry, in the thread. No event loop waits for any of it.
"""
