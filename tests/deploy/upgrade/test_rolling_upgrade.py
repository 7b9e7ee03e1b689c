"""From the former version to this one, back, and up again, one process at a time, under load: no client notices an error."""

import json
from pathlib import Path

import pytest

from tests.bench.client_gaps.streams import MACHINE
from tests.compat.clients.admin import Admin
from tests.compat.kafka.tools import run_tool
from tests.deploy.upgrade.clusters import UpgradedCluster
from tests.deploy.upgrade.compacted_topic import CompactedTopic
from tests.deploy.upgrade.load import Figure, Load
from tests.support.requirements import require

GAP_MS_MAX, OF_MACHINE_MAX = 2000.0, 10.0
"""The longest gap, besides so many times the gap of a small process that uses no cluster. `tests/bench/client_gaps` has the
figures of a quiet machine: `--only rolling-upgrade`."""
FEATURE = "transaction.version"
SEED = 17


def change_level(cluster: UpgradedCluster, change: str, level: int) -> None:
    run_tool("kafka-features", "--bootstrap-server", cluster.bootstrap, change, "--feature", f"{FEATURE}={level}")


@pytest.mark.timeout(900)
def test_an_upgrade_a_rollback_and_another_upgrade_show_no_client_an_error(tmp_path: Path) -> None:
    require("java", "kafka", "previous")
    figures: list[Figure] = []
    with UpgradedCluster(tmp_path, storage=3, gateways=2, controllers=2, coordinators=2, transaction_coordinators=2) as cluster:
        change_level(cluster, "downgrade", 1)
        admin = Admin(cluster.bootstrap)
        compacted = CompactedTopic(cluster.bootstrap, admin)
        compacted.write()
        with Load(cluster.bootstrap, admin, tmp_path, SEED) as load:
            assert any("`make upgrade`" in line and "gateway-2" in line for line in cluster.command("up"))
            for phase, step in (("upgrade", cluster.upgrade), ("rollback", cluster.roll_back), ("again", cluster.upgrade)):
                with load.measured(phase, figures):
                    step()
                assert cluster.forked() or phase != "again"
                compacted.write()
                compacted.check()
            with load.measured("raised", figures):
                change_level(cluster, "upgrade", 2)
            assert cluster.upgrade() == ["all processes run this code already"]
            told = load.finish()
        admin.close()
        removed = removed_members(cluster)
    print(json.dumps(figures), json.dumps(told), *removed, sep="\n")
    check(figures, told)


def removed_members(cluster: UpgradedCluster) -> list[str]:
    """The lines that say which members left their groups, and why: UNKNOWN_MEMBER_ID alone does not."""
    names = [name for name in cluster.names if name.startswith("group_coordinator")]
    return [line for name in names for line in cluster.log(name).splitlines() if 'event="member removed"' in line]


def check(figures: list[Figure], told: Figure) -> None:
    """Nothing failed, was lost or doubled, and nobody waited for long."""
    assert not [figure for figure in figures if figure["failed"]]
    for phase in {figure["case"] for figure in figures}:
        gaps = {(figure["client"], figure["side"]): figure["gap_ms"] for figure in figures if figure["case"] == phase}
        of_machine = max(gap for (client, _), gap in gaps.items() if client == MACHINE)
        assert max(gaps.values()) < GAP_MS_MAX + OF_MACHINE_MAX * of_machine, (phase, gaps)
    for kind, wrong in (("producers", ("lost", "duplicated", "failed")), ("consumers", ("passed_over", "received_again"))):
        assert not [(client, counts) for client, counts in told[kind].items() if any(counts[name] for name in wrong)]
    assert not any(told["read_twice"].values()), told["read_twice"]
    transactions = dict(told["transactions"])
    assert transactions.pop("committed") > 0
    assert not any(transactions.values()), transactions
