"""Six clients of others produce and consume while their leader is killed, comes back and leads again. tests/bench/client_gaps
measures how long they wait; here nothing may be lost, doubled or passed over."""

from pathlib import Path

from tests.bench.client_gaps.run import Load, measure
from tests.bench.client_gaps.streams import COMMANDS
from tests.support.requirements import require

QUICK_REFRESH = Load(refresh_ms=1_000, per_second=20)
NONE = dict.fromkeys(("lost", "duplicated", "failed", "passed_over"), 0)
AGAIN = {"kafkajs"}
"""It begins again from its last commit after an error."""


def test_no_client_loses_doubles_or_passes_over_a_record_when_leaders_change(short_dir: Path) -> None:
    require("java", "kafka", "go", "node")
    rows = list(measure(tuple(COMMANDS), ["leader-killed"], 1, QUICK_REFRESH, short_dir))
    beside_the_log = {str(row["client"]): row for row in rows if row["case"] == "log"}
    assert beside_the_log.keys() == COMMANDS.keys()
    for client, row in beside_the_log.items():
        assert row | NONE == row, row
        assert row["received_again"] == 0 or client in AGAIN, row
