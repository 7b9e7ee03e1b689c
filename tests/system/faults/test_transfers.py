"""Transfers between partitions, in transactions, while processes are killed. Long form: `python -m tests.system.transfers`."""

from tests.support.requirements import require
from tests.system.transfers import WRONG, run

SECONDS = 20.0


def test_no_transfer_is_torn_lost_or_seen_in_spite_of_its_abort_and_each_is_copied_once() -> None:
    require("etcd")
    found = run(SECONDS, seed=1)
    assert [found[wrong] for wrong in WRONG] == [[]] * len(WRONG)
    transfers = found["transfers"]
    assert isinstance(transfers, dict)
    assert transfers["committed"] > 100
    assert transfers["aborted"] > 10
    assert found["copied"] > 200  # type: ignore[operator]
    assert sum(found["kills"].values()) >= 2  # type: ignore[attr-defined]
