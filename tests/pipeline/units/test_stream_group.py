"""The clients of a stream's group: none is left when it is closed."""

from contextlib import suppress
from pathlib import Path

import pytest

from libs.client.security import Security
from services.pipeline.errors import PipelineError
from services.pipeline.observing.group import StreamGroup
from services.pipeline.spark.cluster import ClusterSettings
from tests.support.polling import eventually


def librdkafka_threads() -> int:
    """Each client has a thread of this name. A thread that it begins has it too, until it gives itself another."""
    names = []
    for task in Path("/proc/self/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # a thread that has just ended
            names.append(task.joinpath("comm").read_text(encoding="utf-8").strip())
    return names.count("rdk:main")


def test_a_closed_group_has_no_threads_though_it_is_kept() -> None:
    before = librdkafka_threads()
    group = StreamGroup(ClusterSettings("127.0.0.1:1"), "group")
    eventually(lambda: librdkafka_threads() == before + 2)
    group.close()
    eventually(lambda: librdkafka_threads() == before)
    assert group.group == "group"


def test_a_group_without_a_client_names_no_password(tmp_path: Path) -> None:
    (password := tmp_path / "password").write_text("a-password-that-nothing-may-show", encoding="utf-8")
    security = Security("SASL_SSL", "PLAIN", "lake", str(password), ca_file=str(tmp_path / "nowhere.pem"))
    with pytest.raises(PipelineError, match=r"group orders has no client for .*ssl.ca.location failed") as raised:
        StreamGroup(ClusterSettings("127.0.0.1:1", security=security), "orders")
    assert "a-password-that-nothing-may-show" not in str(raised.value)
