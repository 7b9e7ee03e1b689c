"""Compaction: of each key the latest record stays. What a child process does; the log's owner says when, and swaps the files."""
