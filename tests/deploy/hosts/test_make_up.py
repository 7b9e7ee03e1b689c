"""`make up HOST=…` serves other machines, by the address that it was given, and this one too."""

import pytest

from tests.support.requirements import require
from tests.system.chaos.hosts import run_as_router, why_no_hosts


@pytest.mark.timeout(600)
def test_clients_of_three_kinds_on_another_machine_use_what_make_up_started() -> None:
    require("root", "etcd", "kcat", "java", "kafka")
    assert why_no_hosts() is None
    assert run_as_router("tests.deploy.hosts.make_up", []) == 0
