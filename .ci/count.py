"""Reads pytest's JUnit report and prints "RAN BAD SKIPPED", followed by a complaint if any was skipped or too few ran."""

import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path


def main(report: str, least: str) -> None:
    if not Path(report).exists():
        print(f"0 0 0 - pytest wrote no report; at least {least} tests were expected")
        return
    suites = list(ElementTree.parse(report).getroot().iter("testsuite"))
    collected, failures, errors, skipped = (
        sum(int(suite.get(name, "0")) for suite in suites) for name in ("tests", "failures", "errors", "skipped")
    )
    ran = collected - skipped
    complaint = " - some were skipped" if skipped else f" - at least {least} were expected" if ran < int(least) else ""
    print(f"{ran} {min(failures + errors, ran)} {skipped}{complaint}")


if __name__ == "__main__":
    main(*sys.argv[1:])
