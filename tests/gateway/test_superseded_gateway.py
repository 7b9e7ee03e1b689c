"""Two gateways with one id: the older one stops."""

from libs.cluster import keys
from libs.cluster.records import Member
from tests.gateway.conftest import Rig
from tests.support.polling import until


async def test_a_gateway_whose_id_is_taken_says_so_and_stops(rig: Rig) -> None:
    gateway = await rig.start()
    assert gateway.ready() == (True, "ready")
    await rig.put(keys.member("gateway", 1), Member("gateway", 1, 2, "another-host"))
    await until(lambda: bool(rig.deaths))
    assert [str(death) for death in rig.deaths] == ["another process runs as gateway 1, with incarnation 2"]
    assert gateway.ready() == (False, "another process runs as gateway 1")
