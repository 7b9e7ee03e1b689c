"""The names in documents and docstrings: files, functions in them, links and make targets exist."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

PAGES = (
    *("README.md", "CONTRIBUTING.md", "services/README.md", "libs/README.md", "tests/README.md"),
    *sorted(str(page.relative_to(ROOT)) for page in (ROOT / "docs").rglob("*.md")),
)

TOP = r"(?:libs|services|tests|docs|\.ci)/"
PATH = re.compile(rf"`({TOP}[\w./-]*)`")
NAME = re.compile(rf"`({TOP}[\w./-]+\.py):([\w.]+)`")
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
ANCHOR = re.compile(r"\]\(([^)#:]*)#([^)]+)\)")
MAKE = re.compile(r"\bmake ([a-z]+(?:-[a-z]+)?)\b")


@cache
def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


@cache
def code_of(page: str) -> str:
    """The parts of a page that are set as code."""
    text = text_of(page)
    return "\n".join(re.findall(r"```.*?```", text, re.DOTALL) + re.findall(r"`[^`\n]+`", text))


@cache
def names_in(path: Path) -> frozenset[str]:
    """`function`, `Class` and `Class.method` of a module."""
    names: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            names |= {
                f"{node.name}.{each.name}" for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
            }
    return frozenset(names)


@pytest.mark.parametrize("page", PAGES)
def test_every_path_that_a_page_names_exists(page: str) -> None:
    named = [*PATH.findall(text_of(page)), *(path for path, _ in NAME.findall(text_of(page)))]
    assert [path for path in named if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("page", PAGES)
def test_every_function_that_a_page_names_is_in_that_file(page: str) -> None:
    named = [(path, name) for path, name in NAME.findall(text_of(page)) if (ROOT / path).exists()]
    assert [f"{path}:{name}" for path, name in named if name not in names_in(ROOT / path)] == []


PACKAGES = [f"{top}/{each.parent.name}" for top in ("libs", "services") for each in sorted((ROOT / top).glob("*/__init__.py"))]
SHORT = re.compile(r"`((?:[\w-]+/)*[a-z]\w*\.py)(?::([\w.]+))?`")
PLAIN = re.compile(r"(?<![\w/.-])(?:docs|libs|services|tests)/[\w./-]*\w\.(?:py|md|json)")


@cache
def modules_by_name() -> dict[str, list[Path]]:
    modules: dict[str, list[Path]] = {}
    for top in ("libs", "services", "tests"):
        for module in (ROOT / top).rglob("*.py"):
            modules.setdefault(module.name, []).append(module)
    return modules


def docstrings_of(module: Path) -> str:
    """Those of the module, its classes and functions, and of attributes."""
    tree = ast.parse(module.read_text(encoding="utf-8"))
    lines = (node.value for node in ast.walk(tree) if isinstance(node, ast.Expr))
    return "\n".join(line.value for line in lines if isinstance(line, ast.Constant) and isinstance(line.value, str))


@pytest.mark.parametrize("package", PACKAGES)
def test_every_file_and_function_that_a_docstring_names_exists(package: str) -> None:
    """A module may be named by the end of its path, such as `core/shard.py`."""
    wrong = []
    for module in sorted((ROOT / package).rglob("*.py")):
        text, here = docstrings_of(module), str(module.relative_to(ROOT))
        for path, name in SHORT.findall(text):
            namesakes = modules_by_name().get(path.rpartition("/")[2], [])
            named = [each for each in namesakes if f"/{each.relative_to(ROOT)}".endswith(f"/{path}")]
            if not named or (name and not any(name in names_in(each) for each in named)):
                wrong.append(f"{here}: {path}:{name}")
        wrong += [f"{here}: {path}" for path in (*PATH.findall(text), *PLAIN.findall(text)) if not (ROOT / path).exists()]
    assert wrong == []


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_somewhere(page: str) -> None:
    here = (ROOT / page).parent
    assert [link for link in LINK.findall(text_of(page)) if not (here / link).exists()] == []


@cache
def anchors_of(page: Path) -> frozenset[str]:
    """What GitHub calls the headings of a page, and the anchors that the page sets."""
    text = page.read_text(encoding="utf-8")
    headings = (re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", each) for each in re.findall(r"^#+ (.+)$", text, re.MULTILINE))
    slugs = (re.sub(r"[^\w -]", "", each.strip()).lower().replace(" ", "-") for each in headings)
    return frozenset(slugs) | frozenset(re.findall(r'<a id="([^"]+)">', text))


@pytest.mark.parametrize("page", PAGES)
def test_every_heading_that_a_link_names_is_in_its_page(page: str) -> None:
    here = ROOT / page
    named = [(link, anchor) for link, anchor in ANCHOR.findall(text_of(page)) if not link or link.endswith(".md")]
    assert [
        f"{link}#{anchor}" for link, anchor in named if anchor not in anchors_of((here.parent / link) if link else here)
    ] == []


@pytest.mark.parametrize("page", PAGES)
def test_every_make_target_that_a_page_names_exists(page: str) -> None:
    targets = set(re.findall(r"^([a-z-]+):", text_of("Makefile"), re.MULTILINE))
    assert set(MAKE.findall(code_of(page))) - targets == set()


FLOWS = [page for page in PAGES if page.startswith("docs/understand/flows/")]


@pytest.mark.parametrize("page", FLOWS)
def test_a_flow_names_its_functions_and_the_architecture_page_links_it(page: str) -> None:
    assert len(NAME.findall(text_of(page))) > 15
    assert f"({page.removeprefix('docs/')})" in text_of("docs/architecture.md")


@pytest.mark.parametrize(
    ("library", "told_as_a_whole", "least"),
    [("commitlog", {"cleaner", "inspection"}, 30), ("rpc", {"contracts"}, 15), ("coordinator", set(), 15)],
)
def test_the_table_of_a_librarys_rooms_names_each_of_its_modules(library: str, told_as_a_whole: set[str], least: int) -> None:
    sections = text_of("libs/README.md").split("\n## ")
    table = next(each for each in sections if f"In `libs/{library}/`" in each)
    rooms = [path for path in (ROOT / "libs" / library).iterdir() if path.name not in told_as_a_whole]
    modules = {path.name for room in rooms for path in room.glob("*.py")} - {"__init__.py"}
    assert len(modules) > least
    assert modules - set(re.findall(r"`(?:[\w/]+/)?(\w+\.py)`", table)) == set()
