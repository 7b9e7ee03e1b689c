"""Compaction: the latest record of each key stays. A child process does it; the log's owner decides when, and swaps the files."""
