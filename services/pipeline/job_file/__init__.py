"""Job files: TOML into frozen dataclasses. A value that is wrong, missing or unknown stops with its key and what is allowed.

`reader.py` takes keys from a table; `file.py` reads a whole file; each kind of job has a file with its dataclass and its reader,
listed in `kinds.py`. It may import the settings of `services.pipeline.spark`, and `services.pipeline.protobuf`.
"""
