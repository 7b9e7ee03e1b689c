"""The page of configs is complete, and as the tables have them."""

import re

import pytest

from libs.cluster.configs.definitions import BROKER_CONFIGS, GROUP_CONFIGS, TOPIC_CONFIGS, ConfigDef
from libs.cluster.configs.values import at_least
from services.gateway.protocol_docs.differences import Difference
from tests.docs.configs_page import PAGE, change_of, default_of, differs, names, page

SENTENCE_WORDS_MAX = 25


def test_the_page_of_configs_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run python -m tests.docs.configs_page"


@pytest.mark.parametrize("table", [TOPIC_CONFIGS, BROKER_CONFIGS, GROUP_CONFIGS], ids=["topics", "brokers", "groups"])
def test_every_config_has_a_row(table: dict[str, ConfigDef]) -> None:
    text = page()
    told = {name for name, topic in default_of().items() if not differs(name, topic) and f"`{name}`" in text}
    assert [name for name in table if f"\n| `{name}` |" not in text and name not in told] == []


@pytest.mark.parametrize("table", [TOPIC_CONFIGS, BROKER_CONFIGS, GROUP_CONFIGS], ids=["topics", "brokers", "groups"])
def test_every_config_says_what_it_does_in_short_sentences(table: dict[str, ConfigDef]) -> None:
    sentences = [(name, sentence) for name, config in table.items() for sentence in re.split(r"(?<=[.:;]) ", config.doc)]
    assert [name for name, config in table.items() if not config.doc.endswith(".")] == []
    assert [each for each in sentences if len(each[1].split()) > SENTENCE_WORDS_MAX] == []


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("log.cleaner.threads", "one or all"),
        ("num.partitions", "all"),
        ("decommission", "one"),
        ("log.roll.hours", "start"),
        ("listeners", "fixed"),
        ("num.io.threads", "one or all"),
        ("replica.socket.timeout.ms", "start"),
        ("controller.quorum.voters", "start"),
        ("authorizer.class.name", "refused"),
        ("ssl.client.auth", "refused"),
        ("ssl.keystore.location", "refused"),
    ],
)
def test_where_a_broker_config_can_be_set(name: str, change: str) -> None:
    assert change_of(BROKER_CONFIGS[name]) == change


def test_a_check_says_what_is_valid_and_what_is_wrong() -> None:
    check = at_least(1000)
    assert check.valid == "at least 1,000"
    assert check(1000) is None
    assert check(999) == "Value must be at least 1000"


def test_differences_that_name_a_config_are_found() -> None:
    row = Difference("x", None, "What is share.* or flush.ms.")
    assert names(row, GROUP_CONFIGS["share.session.timeout.ms"])
    assert names(row, TOPIC_CONFIGS["flush.ms"])
    assert not names(row, TOPIC_CONFIGS["flush.messages"])
    assert not names(Difference("x", None, "log.flush.ms"), TOPIC_CONFIGS["flush.ms"])


@pytest.mark.parametrize("difference", ["topic-configs-min-isr", "cleaner-rate-of-nothing", "group-configs-not-acted-on"])
def test_a_config_links_to_the_differences_that_name_it(difference: str) -> None:
    assert f"(../protocol.md#{difference})" in page()
