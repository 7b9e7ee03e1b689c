"""Transfers between partitions, in transactions, while processes are killed. Long form: `python -m tests.system.transfers`."""

from tests.support.requirements import require
from tests.system.transfers import run

SECONDS = 20.0


def test_no_transfer_is_torn_lost_or_seen_in_spite_of_its_abort() -> None:
    require("etcd")
    found = run(SECONDS, seed=1)
    assert (found["torn"], found["lost"], found["not_aborted"]) == ([], [], [])
    transfers = found["transfers"]
    assert isinstance(transfers, dict)
    assert transfers["committed"] > 100
    assert transfers["aborted"] > 10
    assert sum(found["kills"].values()) >= 2  # type: ignore[attr-defined]
