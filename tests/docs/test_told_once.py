"""Pages tell nothing twice: no long sentence stands on two pages that people write."""

import re
from collections import defaultdict

from tests.docs.house_rules import ROOT

SENTENCE_WORDS_MIN = 10
QUICK_STARTS = ROOT / "docs" / "use" / "quick-starts"
"""Each is for one reader, who reads no other."""
MADE_FROM_CODE = {f"docs/{name}.md" for name in ("protocol", "settings", "use/configs", "operate/metrics", "operate/log-events")}
PAGES = sorted(
    path
    for path in [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / name / "README.md" for name in ("libs", "services", "tests")),
    ]
    if QUICK_STARTS not in path.parents and str(path.relative_to(ROOT)) not in MADE_FROM_CODE
)


def sentences_of(text: str) -> set[str]:
    """The long sentences and cells of a page, without code blocks, links' targets and line breaks."""
    prose = re.sub(r"\]\([^)]*\)", "]", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    parts = (" ".join(part.split()) for part in re.split(r"(?<=[.:;])\s+|\s\|\s|\n\s*\n|\n[-*] ", prose))
    return {part for part in parts if len(part.split()) >= SENTENCE_WORDS_MIN}


def test_a_sentence_is_found_across_lines_and_cells() -> None:
    told = "a leader that was\nreplaced asks its followers before it answers them"
    assert sentences_of(f"One. {told}.") == {" ".join(told.split()) + "."}
    assert sentences_of(f"| x | {told} | y |") == {" ".join(told.split())}


def test_no_sentence_stands_on_two_pages() -> None:
    where = defaultdict(list)
    for page in PAGES:
        for sentence in sentences_of(page.read_text(encoding="utf-8")):
            where[sentence].append(str(page.relative_to(ROOT)))
    assert len(where) > 1000
    assert {sentence: pages for sentence, pages in where.items() if len(pages) > 1} == {}
