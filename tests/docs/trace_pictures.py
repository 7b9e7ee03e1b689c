"""Makes the pictures of docs/operate/tracing.md: runs its commands, and photographs what they lead to by headless Chromium.

`python -m tests.docs.trace_pictures`. Chromium is Debian's `chromium-headless-shell`. Look at the pictures before you commit
them.
"""

import json
import tempfile
from pathlib import Path

from tests.support.browser import photograph
from tests.support.printed_commands import PrintedCommands, printed_commands
from tests.support.requirements import ROOT

PAGE = ROOT / "docs" / "operate" / "tracing.md"
PICTURES = PAGE.parent / "pictures"


def main() -> None:
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch, printed_commands(PAGE, Path(scratch)) as commands:
        commands.section("A trace UI")
        commands.section("Why was that slow?")
        trace_id = slow_produce(commands)
        wait_for_zipkin(commands, trace_id)
        admin, zipkin = (commands.sh(f"printf 127.0.0.1:{port}") for port in (9149, 9138))
        photograph(f"http://{admin}/debug/traces/{trace_id}", PICTURES / "trace-page.png", 1400, 520)
        photograph(f"http://{zipkin}/zipkin/traces/{trace_id}", PICTURES / "zipkin.png", 1400, 700)
        print(f"wrote both to {PICTURES.relative_to(ROOT)}")


def wait_for_zipkin(commands: PrintedCommands, trace_id: str) -> None:
    """Returns when Zipkin has the leader's spans."""
    commands.sh(f"until curl -sf 127.0.0.1:9138/api/v2/trace/{trace_id} | grep -q follower; do sleep 0.2; done")


def slow_produce(commands: PrintedCommands) -> str:
    """The id of the trace that the page is about."""
    traces = json.loads(commands.sh("curl -s 127.0.0.1:9149/debug/traces"))["traces"]
    return str(next(trace["trace_id"] for trace in traces if trace["kind"] == "slow" and trace["name"].startswith("Produce")))


if __name__ == "__main__":
    main()
