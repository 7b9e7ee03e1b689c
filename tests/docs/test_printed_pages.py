"""Pages that run as they are printed: how they are read and judged, and that none is left out."""

from pathlib import Path

import pytest

from tests.deploy.quickstarts.pages import FOLDER, QUICK_STARTS, page_file
from tests.support.printed_pages import InvalidPage, parse_page, run_page
from tests.support.requirements import ROOT

CLUSTER = "127.0.0.1:25000"
PAGE = """
```python
# folder/hello.py
print("hello 127.0.0.1:9092")
```

```bash
word=again
cat folder/hello.py | tail -1
```

```bash
echo $word 127.0.0.1:9093
date
```

```text
again 127.0.0.1:9093
…:…
```
"""


def run(markdown: str, folder: Path) -> None:
    run_page(parse_page(markdown), folder, CLUSTER, timeout_s=20)


def test_every_page_has_a_test() -> None:
    assert {page.stem for page in FOLDER.glob("*.md")} == set(QUICK_STARTS)


def test_the_quick_start_links_every_page() -> None:
    index = (ROOT / "docs" / "use" / "quick-start.md").read_text(encoding="utf-8")
    assert [language for language in QUICK_STARTS if f"(quick-starts/{language}.md)" not in index] == []


@pytest.mark.parametrize("language", QUICK_STARTS)
def test_a_page_has_a_program_and_says_what_its_last_command_prints(language: str) -> None:
    page = parse_page(page_file(language).read_text(encoding="utf-8"))
    assert page.files
    assert page.steps[-1].output


def test_a_page_is_files_and_one_session_of_commands(tmp_path: Path) -> None:
    run(PAGE, tmp_path)
    assert (tmp_path / "folder" / "hello.py").read_text(encoding="utf-8") == '# folder/hello.py\nprint("hello 127.0.0.1:25000")\n'


@pytest.mark.parametrize(
    ("part", "other", "complaint"),
    [
        ("\nagain", "\nonce", "the page has 'once 127.0.0.1:25001', printed was 'again 127.0.0.1:25001'"),
        ("…:…", "…:…\nmore", "the page has 'more', printed was None"),
        ("…:…\n", "", "the page has None, printed was"),
        ("tail -1", "false", "exit 1"),
        ("| tail -1", "; unknown_command", "unknown_command: command not found"),
        ("date", "sleep 60", "exit 124"),
    ],
)
def test_what_goes_otherwise_fails(part: str, other: str, complaint: str, tmp_path: Path) -> None:
    page = parse_page(PAGE.replace(part, other))
    with pytest.raises(AssertionError, match=complaint):
        run_page(page, tmp_path, CLUSTER, timeout_s=1)


@pytest.mark.parametrize(
    ("markdown", "complaint"),
    [
        ("```python\nprint(1)\n```", "a python block begins with 'print\\(1\\)', not with a comment that names its file"),
        ("```\nls\n```", "a plain block begins with 'ls'"),
        ("```go\n// a.go\n```\n\n```go\n// a.go\n```", "two blocks are a.go"),
        ("```text\nhello\n```", "output that follows no commands: 'hello"),
    ],
)
def test_a_block_of_no_kind_is_refused(markdown: str, complaint: str) -> None:
    with pytest.raises(InvalidPage, match=complaint):
        parse_page(markdown)
