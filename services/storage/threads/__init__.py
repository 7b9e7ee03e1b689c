"""Threads, timers and turns of the event loop. It imports nothing of storage."""
