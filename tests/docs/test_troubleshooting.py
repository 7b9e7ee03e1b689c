"""The page of troubleshooting quotes what the code and the clients say, and the index of docs names every page."""

import re
from functools import cache

import aiokafka.errors
import confluent_kafka
import pytest

from libs.wire.errors import ErrorCode
from tests.compat.clients import kafka_python
from tests.docs.metrics_page import ROOT, definitions, exposed

PAGE = ROOT / "docs" / "use" / "troubleshooting.md"
INDEX = ROOT / "docs" / "README.md"
TEXT = PAGE.read_text(encoding="utf-8")
KAFKA_NAMES_FOR = {"MSG_SIZE_TOO_LARGE": "MESSAGE_TOO_LARGE"}
"""librdkafka's name of an error that has another name in Kafka."""


@cache
def code() -> str:
    return "\n".join(
        path.read_text(encoding="utf-8") for top in ("libs", "services") for path in sorted((ROOT / top).rglob("*.py"))
    )


@pytest.mark.parametrize("event", sorted(set(re.findall(r'event="([^"]+)"', TEXT))))
def test_the_code_writes_the_line(event: str) -> None:
    written = [f'"{event}"', f'f"{event}']
    if event.startswith("log directory belongs to another "):
        written.append('f"log directory belongs to another {')
    assert any(each in code() for each in written)


@pytest.mark.parametrize(
    "words", ["held by another process", "was retired (", "is a copy of", "runs already, at", "is not set (nor"]
)
def test_the_code_ends_with_the_words(words: str) -> None:
    assert words in TEXT
    assert words in code()


def test_errors_are_raised_under_their_names() -> None:
    names = set(re.findall(r'error="(\w+): ', TEXT)) - {"OSError"}
    assert [name for name in names if f"class {name}(" not in code()] == []


def test_reasons_of_groups_and_connections_are_the_codes_own() -> None:
    for section in ("Rebalance loops", "UNSUPPORTED_VERSION and connections that close"):
        table = TEXT.partition(f"## {section}\n")[2].partition("\n## ")[0].rpartition("|---|---|\n")[2]
        words = re.findall(r"`([^`]+)`", "\n".join(line.split("|")[1] for line in table.splitlines() if line.startswith("| `")))
        assert len(words) > 5
        assert [each for each in words if each not in ("member fenced",) and not said(each)] == []


def said(words: str) -> bool:
    return all(part.strip() in code() for part in words.split("…") if part.strip())


def test_clients_say_it_so() -> None:
    messages = {confluent_kafka.KafkaError(int(code)).name(): confluent_kafka.KafkaError(int(code)).str() for code in ErrorCode}
    quoted = re.findall(r"([A-Z_]{6,}): `(Broker: [^`]+)`", TEXT)
    assert len(quoted) >= 6
    assert [(name, message) for name, message in quoted if messages.get(name) != message] == []
    pythons = set(re.findall(r"`(\w+Error)`", TEXT))
    assert [name for name in pythons if not (hasattr(kafka_python.errors, name) or hasattr(aiokafka.errors, name))] == []


def test_errors_have_kafkas_names() -> None:
    names = set(re.findall(r"\b[A-Z]+(?:_[A-Z]+)+\b", re.sub(r"```.*?```|`[^`\n]*`", "", TEXT, flags=re.DOTALL)))
    assert [name for name in names if KAFKA_NAMES_FOR.get(name, name) not in ErrorCode.__members__] == []


def test_metrics_on_the_page_exist() -> None:
    names = {exposed(definition) for each in definitions().values() for definition in each}
    assert set(re.findall(r"`((?:kafka|penstock)_[a-z_]+)", TEXT)) - names == set()


@pytest.mark.parametrize(
    "page",
    [
        "docs/use/troubleshooting.md",
        "docs/use/quick-start.md",
        "docs/use/comparison.md",
        "docs/README.md",
        *(page.relative_to(ROOT).as_posix() for page in sorted((ROOT / "docs" / "use" / "quick-starts").glob("*.md"))),
    ],
)
def test_links_to_headings_lead_somewhere(page: str) -> None:
    here = ROOT / page
    for target, anchor in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", here.read_text(encoding="utf-8")):
        headings = re.findall(
            r"^#+ (.+)$", ((here.parent / target) if target else here).read_text(encoding="utf-8"), re.MULTILINE
        )
        anchors = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
        assert anchor in anchors, f"{target}#{anchor}"


def test_the_index_names_every_page() -> None:
    docs = ROOT / "docs"
    pages = {page.relative_to(docs).as_posix() for folder in ("", "use", "operate") for page in (docs / folder).glob("*.md")}
    linked = set(re.findall(r"\]\(([^)#]+)\)", INDEX.read_text(encoding="utf-8")))
    assert pages - linked == {"README.md"}
    assert {"understand/README.md", "adr/"} <= linked


def test_the_readme_says_what_is_needed_before_it_needs_it() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    order = [
        "needs Linux, Python 3.11",
        "Debian's package `kcat`",
        "\nmake up\n",
        "| kcat ",
        "kafka.apache.org/downloads",
        "kafka-topics.sh",
    ]
    places = [readme.index(words) for words in order]
    assert places == sorted(places)
