"""The processes of seeds are forked where that is safe."""

import subprocess
import sys

from tests.support.requirements import ROOT

PROGRAM = """
import sys, threading
from tests.simulation.process_pool import process_pool

def knows():
    with process_pool(1) as pool:
        return pool.submit(eval, "'marker' in __import__('sys').modules").result()

sys.modules["marker"] = sys
alone = knows()
threading.Thread(target=threading.Event().wait, daemon=True).start()
print(alone, knows())
"""


def test_processes_are_forked_only_from_a_process_without_other_threads() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=ROOT, stdout=subprocess.PIPE, encoding="utf-8", check=True, timeout=60
    )
    assert done.stdout.split() == ["True", "False"]
