"""Transactions while processes are killed and stopped: `make chaos TRANSFERS=100`.

`tellers` move amounts from one partition to another, `copiers` copy what is committed, and `committed_reads` reads it again and
again; `java_clients` does all three on Java's clients, in one process. `verdict` says what is wrong, and `run` plays it all.
"""
