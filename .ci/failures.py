"""Reads pytest's JUnit report and prints a line for each test that failed: its name, and the beginning of why."""

import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

LINE_LENGTH = 400


def main(report: str) -> None:
    if not Path(report).exists():
        return
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        for wrong in (*case.findall("failure"), *case.findall("error")):
            reason = " ".join(wrong.get("message", "").split())
            print(f"{case.get('classname', '')}::{case.get('name', '')}: {reason}"[:LINE_LENGTH])


if __name__ == "__main__":
    main(*sys.argv[1:])
