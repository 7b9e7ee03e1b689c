"""Fixtures of the log's tests."""

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.commitlog.kafka_lives import Judged


@pytest.fixture(scope="session")
def kafka_lives(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> "dict[str, Judged]":
    """The records of one Kafka broker's runs, for each collected test module that has a `Judged`, by the module's name."""
    from tests.commitlog import kafka_lives
    from tests.support.requirements import require

    require("java", "kafka")
    root = tmp_path_factory.mktemp("judged")
    modules = {item.module.__name__: item.module for item in request.session.items if isinstance(item, pytest.Function)}
    judged: dict[str, Judged] = {name: module.Judged(root) for name, module in sorted(modules.items()) if has_judged(module)}
    kafka_lives.live(root / "broker", list(judged.values()))
    return judged


def has_judged(module: object) -> bool:
    from tests.commitlog.kafka_lives import Judged

    own = getattr(module, "Judged", None)
    return isinstance(own, type) and issubclass(own, Judged)
