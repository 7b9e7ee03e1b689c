"""The number of files that a service may have open."""

import resource
import subprocess
import sys

CODE = """
import resource
from libs.runtime.lifecycle import run

async def main(lifecycle):
    print(*resource.getrlimit(resource.RLIMIT_NOFILE))
    lifecycle.stop()

run(main)
"""


def test_a_service_takes_as_many_open_files_as_it_may_have() -> None:
    """Shells start with a limit of 1,024, for the sake of select(), but a storage node uses five files for each partition."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    limited = f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (256, {hard}))\n" + CODE
    ran = subprocess.run([sys.executable, "-c", limited], capture_output=True, encoding="utf-8", timeout=60)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.split() == [str(hard), str(hard)]
