"""Settings of transactions follow the cluster's broker configs, from the next decision on."""

from libs.cluster import keys
from libs.cluster.codec import encode
from libs.cluster.image import ClusterImage
from libs.cluster.records import ConfigOverrides
from libs.cluster.store import WatchBatch, WatchEvent
from services.transaction_coordinator.core.transaction_machine import TransactionSettings
from services.transaction_coordinator.settings import Settings

CONFIGS = {
    "transaction.max.timeout.ms": "1000",
    "transactional.id.expiration.ms": "2000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "3000",
}


def with_configs(**changes: str) -> ClusterImage:
    values = CONFIGS | {name.replace("_", "."): value for name, value in changes.items()}
    event = WatchEvent(keys.config("broker", ""), encode(ConfigOverrides(values)), 1, 1)
    return ClusterImage().apply(WatchBatch((event,), 1))


def test_settings_follow_the_image() -> None:
    settings = Settings()
    assert settings.current == TransactionSettings()
    settings.follow(with_configs())
    assert settings.current == TransactionSettings(id_expiration_ms=2000, expiry_check_ms=3000, timeout_ms_max=1000)


def test_a_value_that_cannot_be_read_is_the_default() -> None:
    settings = Settings()
    settings.follow(with_configs(transaction_max_timeout_ms="x"))
    assert settings.current == TransactionSettings(id_expiration_ms=2000, expiry_check_ms=3000)
