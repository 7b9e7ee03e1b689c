"""Comparison of a log with its copy in a lake: slices, differences to the offset, reasons of gaps, and the report.

`comparison.py` composes the room. It may import `transforms` and `spark`; no other room but `jobs` imports it.
"""
