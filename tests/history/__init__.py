"""Judges what clients saw of a cluster: `python -m tests.history FILE`.

A client records every call as it begins and as it ends (`model`). `calls` pairs them, `log` derives from them what each partition
must have held, and each module of `checks` is one idea of what may not be, as passes over both in linear time. `judge` runs them
all, `report` tells people. The histories in `cases/` show each rule beside its legal neighbour.
"""
