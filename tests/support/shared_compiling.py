"""Each worker of a run first imports another part of the test files, so that no two of them compile the same file.

All workers collect all tests. Where bytecode is missing, as in a fresh clone, each of them would compile every file, with its
assertions rewritten, and so do the work of all. A file that another worker has compiled is only read.
"""

import importlib
import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest


def import_in_turn(config: pytest.Config) -> None:
    """Only in workers of xdist. What cannot be imported is left to the collection, which says why."""
    place = getattr(config, "workerinput", None)
    if place is None or sys.dont_write_bytecode:
        return
    files = sorted(_test_files(config))
    first = len(files) * int(place["workerid"].removeprefix("gw")) // place["workercount"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for path in (*files[first:], *files[:first]):
            try:
                importlib.import_module(".".join(path.relative_to(config.rootpath).with_suffix("").parts))
            except (Exception, pytest.skip.Exception):
                continue


def _test_files(config: pytest.Config) -> Iterator[Path]:
    for argument in config.args:
        path = Path(config.invocation_params.dir, argument.partition("::")[0]).resolve()
        if path.is_relative_to(config.rootpath):
            yield from _below([path], config)


def _below(paths: Sequence[Path], config: pytest.Config) -> Iterator[Path]:
    for path in paths:
        if config.hook.pytest_ignore_collect(collection_path=path, config=config):
            continue
        if path.is_dir():
            yield from _below(list(path.iterdir()), config)
        elif path.name.startswith("test_") and path.suffix == ".py":
            yield path
