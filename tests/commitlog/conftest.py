"""Fixtures of the log's tests."""

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.commitlog.kafka_lives import Judged


@pytest.fixture(scope="session")
def kafka_lives(tmp_path_factory: pytest.TempPathFactory) -> "dict[str, Judged]":
    """By the names of the test modules: what one Kafka broker did for each of them."""
    from tests.commitlog import kafka_lives, test_cleaner_kafka, test_kafka_reads_our_files, test_kafka_transactions
    from tests.requirements import require

    require("java", "kafka")
    root = tmp_path_factory.mktemp("judged")
    modules = (test_cleaner_kafka, test_kafka_reads_our_files, test_kafka_transactions)
    judged: dict[str, Judged] = {module.__name__: module.Judged(root) for module in modules}
    kafka_lives.live(root / "broker", list(judged.values()))
    return judged
