"""Kafka's broker configs on a node: those in force now, read once for each change."""

from libs.cluster.image import ClusterImage
from services.storage.config import BrokerConfigs

EXPIRATION = "producer.id.expiration.ms"


def image_with(expiration_ms: int | None = None, *, broker: str = "") -> ClusterImage:
    values = {EXPIRATION: str(expiration_ms)} if expiration_ms is not None else {}
    return ClusterImage(overrides_by_resource={("broker", broker): values})


def test_a_change_counts_at_once_for_the_cluster_and_for_this_node_alone() -> None:
    image = image_with()
    configs = BrokerConfigs(lambda: image, 7, {})
    default = configs.integer(EXPIRATION)
    image = image_with(5_000)
    assert configs.integer(EXPIRATION) == 5_000
    image = image_with(6_000, broker="7")
    assert configs.integer(EXPIRATION) == 6_000
    image = image_with(6_000, broker="8")
    assert configs.integer(EXPIRATION) == default


def test_a_config_without_a_value_has_none_until_somebody_sets_it() -> None:
    image = ClusterImage()
    assert BrokerConfigs(lambda: image, 7, {}).value("broker.rack") is None
    assert BrokerConfigs(lambda: image, 7, {EXPIRATION: "9000"}).integer(EXPIRATION) == 9_000


def test_while_no_override_changes_nothing_is_read_again() -> None:
    class CountedImage:
        overrides_by_resource: dict[tuple[str, str], dict[str, str]] = {}
        reads = 0

        def overrides(self, kind: str, name: str) -> dict[str, str]:
            self.reads += 1
            return {}

    image = CountedImage()
    configs = BrokerConfigs(lambda: image, 7, {})  # type: ignore[arg-type,return-value]
    assert len({configs.integer(EXPIRATION) for _ in range(3)}) == 1
    once = image.reads
    configs.integer(EXPIRATION)
    assert image.reads == once
