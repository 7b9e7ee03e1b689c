"""Three hosts as docs/operate/three-hosts.md makes them: what a client was told stays, whichever host is gone."""

import pytest

from tests.support.requirements import require
from tests.system.chaos.hosts import run_as_router, why_no_hosts


@pytest.mark.timeout(600)
def test_nothing_acknowledged_is_lost_when_a_host_is_cut_off_and_another_loses_its_power() -> None:
    require("root", "etcd", "kcat", "nft")
    assert why_no_hosts() is None
    assert run_as_router("tests.deploy.hosts.story", []) == 0


@pytest.mark.timeout(600)
def test_hosts_with_certificates_and_a_token_serve_clients_and_no_strangers() -> None:
    require("root", "etcd", "kcat", "nft")
    assert why_no_hosts() is None
    assert run_as_router("tests.deploy.hosts.secured_story", []) == 0
