"""`python -m tests.history FILE…`: judges recorded histories."""

import sys
from pathlib import Path

from tests.history.judge import judge
from tests.history.model import read
from tests.history.report import format_verdict


def main(paths: list[str]) -> int:
    broken = False
    for path in paths:
        verdict = judge(read(Path(path)))
        print(f"{path}: {format_verdict(verdict)}")
        broken |= bool(verdict.findings)
    return int(broken or not paths)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
