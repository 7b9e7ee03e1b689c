"""The ACLs that docs/security.md prints for each kind of application, as commands of kafka-acls."""

import shlex

from tests.compat.kafka.tools import run_tool
from tests.support.printed_blocks import PRINTED_PORT, blocks_of, section_of
from tests.support.requirements import ROOT

PAGE = ROOT / "docs" / "security.md"
SECTION = "What applications need"
TOOL = "kafka-acls.sh"


def printed_acls(title: str = SECTION) -> list[list[str]]:
    """The arguments of each command below that heading, without the address."""
    commands = []
    for block in blocks_of(section_of(PAGE.read_text(encoding="utf-8"), title)):
        for line in block.text.replace("\\\n", " ").splitlines():
            tool, option, address, *arguments = shlex.split(line)
            assert (tool, option, address) == (TOOL, "--bootstrap-server", f"127.0.0.1:{PRINTED_PORT}"), line
            commands.append(arguments)
    return commands


def run_printed(bootstrap: str, commands: list[list[str]]) -> None:
    for arguments in commands:
        run_tool("kafka-acls", "--bootstrap-server", bootstrap, *arguments)
