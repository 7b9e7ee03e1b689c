"""CPU time of threads, where a sample cannot read it."""

import builtins
import hashlib
import signal
import threading
from errno import EMFILE

import pytest

from libs.telemetry.cpu_profile import CpuProfile


def test_a_sample_without_a_free_descriptor_adds_no_time_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next one would add all that a thread has used in its life."""
    used, over = threading.Event(), threading.Event()

    def uses() -> None:
        for _ in range(100):
            hashlib.sha256(bytes(1 << 20)).digest()
        used.set()
        over.wait()

    def no_descriptor(*_: object, **__: object) -> object:
        raise OSError(EMFILE, "no descriptor is free")

    thread = threading.Thread(target=uses, name="busy")
    thread.start()
    assert used.wait(60)
    profile = CpuProfile()
    profile.start()
    with monkeypatch.context() as without:
        without.setattr(builtins, "open", no_descriptor)
        signal.raise_signal(signal.SIGPROF)
    signal.raise_signal(signal.SIGPROF)
    profile.stop()
    over.set()
    thread.join()
    busy_ns = sum(ns for stack, ns in profile.result().stacks.items() if stack[0] == "busy")
    assert busy_ns < 20_000_000, "it has slept since the profile began"
