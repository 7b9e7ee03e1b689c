"""MirrorMaker 2 as a process, with the properties that docs/use/coming-from-kafka.md recommends."""

import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.compat.kafka.jars import MIRROR, KafkaJars
from tests.compat.kafka.tools import SHORT_LIVED
from tests.support.printed_blocks import blocks_of, section_of
from tests.support.requirements import ROOT, require

PAGE = ROOT / "docs" / "use" / "coming-from-kafka.md"
MAIN = "org.apache.kafka.connect.mirror.MirrorMaker"


def documented_properties(title: str) -> dict[str, str]:
    """The `properties` block of the section `title`."""
    (text,) = (
        block.text for block in blocks_of(section_of(PAGE.read_text(encoding="utf-8"), title)) if block.language == "properties"
    )
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)


class MirrorMaker:
    """Use as a context manager."""

    def __init__(self, directory: Path, properties: Mapping[str, str]) -> None:
        require("java", "kafka-mirror")
        self._log = directory / "mirror-maker.log"
        self._properties = directory / "mm2.properties"
        self._properties.write_text("".join(f"{name}={value}\n" for name, value in properties.items()), encoding="utf-8")

    def __enter__(self) -> "MirrorMaker":
        command = KafkaJars(ROOT, MIRROR).command(MAIN, str(self._properties), options=SHORT_LIVED)
        with open(self._log, "ab") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        return self

    def lives(self) -> bool:
        assert self._process.poll() is None, self.log()[-5000:]
        return True

    def log(self) -> str:
        return self._log.read_text(errors="replace", encoding="utf-8")

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait(timeout=60)
