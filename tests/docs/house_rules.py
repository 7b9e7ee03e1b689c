"""Rules of the house that import-linter does not know: `make check` runs them.

1. No import circle of more than two files, in libs/, services/ and tests/.
2. No import circle between folders of libs/ and services/. A file beside folders, such as `service.py`, counts as a folder of its
   own.
3. No private attribute of another module's object: `other._field` only where this module defines `_field`. Tests and planted bugs
   have such uses; their number can only fall.
4. No module imports from a `test_*` module. What tests share lies in a module that is named for what it is.
5. Text is read and written in an encoding that the code names (`tests/docs/text_encodings.py`).
6. Nobody uses the one generator of the module `random`: each has a `Random` of its own. Others' draws would move it, and ours
   theirs; Hypothesis refuses examples while it moves.

`python -m tests.docs.house_rules` prints what breaks them, and fails if anything does. `--reaches` prints what rule 3 counts in
tests/.
"""

import ast
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from tests.docs.syntax_trees import many_trees, nodes_of_type, tree_of
from tests.docs.text_encodings import unnamed_encodings

ROOT = Path(__file__).resolve().parents[2]
TOPS = ("libs", "services")
CIRCLE_FILES_MAX = 2
TEST_REACHES = 92
"""Uses of private attributes in tests/, as rule 3 counts them. Fewer: lower it. More: give what the test needs a public name."""
DEFINING = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Attribute, ast.AnnAssign, ast.Constant)
NAMED_TUPLE_METHODS = frozenset({"_asdict", "_fields", "_make", "_replace"})
SYSTEM_CALLS = frozenset({"os._exit", "sys._current_frames"})
CONSTANTS_OF_LIBRARIES = ("KafkaError._", "spark._jvm", "rows._jdf")
"""librdkafka's own errors begin with an underscore; so does PySpark's way into its JVM, which has no other name."""
IMPORT_LINE = re.compile(r"^(?:from|import) (tests[\w.]*)", re.MULTILINE)
Graph = Mapping[str, set[str]]


def files(tops: Iterable[str] = TOPS) -> dict[str, Path]:
    """The file of each module, by dotted name; a package is named without `__init__`."""
    found = {}
    for top in tops:
        for path in sorted((ROOT / top).rglob("*.py")):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            found[name.removesuffix(".__init__")] = path
    return found


def modules(tops: Iterable[str] = TOPS) -> dict[str, ast.Module]:
    """The syntax tree of each module."""
    return {name: tree_of(path) for name, path in files(tops).items()}


def imports(trees: Mapping[str, ast.Module], known: Collection[str] | None = None) -> dict[str, set[str]]:
    """The modules that each module imports, imports for type checking included. `known`: those that count, by default `trees`."""
    known = trees.keys() if known is None else known
    graph: dict[str, set[str]] = {}
    for name, tree in trees.items():
        found = graph[name] = set()
        for node in nodes_of_type(tree, ast.ImportFrom):
            if node.module:
                for alias in node.names:
                    inner = f"{node.module}.{alias.name}"
                    found.add(inner if inner in known else node.module)
        found.update(alias.name for plain in nodes_of_type(tree, ast.Import) for alias in plain.names)
        found.intersection_update(known)
        found.discard(name)
    return graph


def folders(graph: Graph) -> dict[str, set[str]]:
    """The same graph between folders. A module that lies beside folders stands for itself."""
    with_folders = {parent_of(parent_of(name)) for name in graph}

    def folder(name: str) -> str:
        parent = parent_of(name)
        return name if parent in with_folders or name in with_folders else parent

    between: dict[str, set[str]] = {folder(name): set() for name in graph}
    for name, found in graph.items():
        between[folder(name)] |= {folder(each) for each in found} - {folder(name)}
    return between


def parent_of(name: str) -> str:
    return name.rpartition(".")[0]


def circles(graph: Graph) -> Iterator[list[str]]:
    """Strongly connected components of more than one node (Tarjan)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in sorted(graph[node]):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            circle = stack[stack.index(node) :]
            del stack[stack.index(node) :]
            if len(circle) > 1:
                found.append(sorted(circle))

    sys.setrecursionlimit(10_000)
    for node in sorted(graph):
        if node not in index:
            visit(node)
    yield from found


def private_reaches(trees: Mapping[str, ast.Module]) -> Iterator[str]:
    """Each use of a private attribute that this module does not define itself."""
    for name, tree in trees.items():
        own = set(defined_in(tree))
        for node in nodes_of_type(tree, ast.Attribute):
            if not node.attr.startswith("_") or node.attr.startswith("__"):
                continue
            on_self = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            if on_self or node.attr in own | NAMED_TUPLE_METHODS:
                continue
            text = ast.unparse(node)
            if text not in SYSTEM_CALLS and not text.startswith(CONSTANTS_OF_LIBRARIES):
                yield f"{name}:{node.lineno}: {text}"


def defined_in(tree: ast.Module) -> Iterator[str]:
    """Names of functions, classes, annotated fields, slots, and attributes of `self`."""
    for node in nodes_of_type(tree, *DEFINING):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"):
            yield node.attr
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def imports_of_tests(trees: Mapping[str, ast.Module]) -> Iterator[str]:
    """Each import from a `test_*` module, also those in programs that tests hold as text."""
    for name, tree in trees.items():
        for node in sorted(nodes_of_type(tree, ast.ImportFrom, ast.Import, ast.Constant), key=line_of):
            if isinstance(node, ast.ImportFrom):
                imported = [node.module or "", *(alias.name for alias in node.names if is_module(node.module, alias.name))]
            elif isinstance(node, ast.Import):
                imported = [alias.name for alias in node.names]
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                imported = IMPORT_LINE.findall(node.value)
            else:
                continue
            for module in imported:
                if module.rpartition(".")[2].startswith("test_"):
                    yield f"{name}:{node.lineno}: {module}"


def line_of(node: ast.AST) -> int:
    """Of a statement or an expression."""
    return getattr(node, "lineno", 0)


def shared_randomness(trees: Mapping[str, ast.Module]) -> Iterator[str]:
    """Each use of a function of the module `random`."""
    for name, tree in trees.items():
        is_imported = any(each.name == "random" for node in nodes_of_type(tree, ast.Import) for each in node.names)
        for node in nodes_of_type(tree, ast.ImportFrom, ast.Attribute):
            if isinstance(node, ast.ImportFrom) and node.module == "random":
                used = [alias.name for alias in node.names]
            elif is_imported and isinstance(node, ast.Attribute) and ast.unparse(node.value) == "random":
                used = [node.attr]
            else:
                continue
            yield from [f"{name}:{node.lineno}: random.{each}" for each in used if each[0].islower()]


def is_module(package: str | None, name: str) -> bool:
    return (ROOT / (package or "").replace(".", "/") / f"{name}.py").exists()


def broken() -> Sequence[str]:
    """What breaks a rule. One tree at a time: all of them take a gigabyte, and as long to take apart as to make."""
    ours, tests = files(), files(("tests",))
    known = {**ours, **tests}
    graph: dict[str, set[str]] = {}
    test_reaches = 0
    found: list[str] = []
    for name, path in {**known, **files(("charts", ".ci"))}.items():
        with many_trees():
            tree = {name: tree_of(path)}
            if name in known:
                graph |= imports(tree, known)
                found += (f"the generator that all modules share: {used}" for used in shared_randomness(tree))
            if name in ours:
                found += (f"private attribute of another module's object: {reach}" for reach in private_reaches(tree))
            if name in tests:
                test_reaches += sum(1 for _ in private_reaches(tree))
                found += (f"import from a test module: {imported}" for imported in imports_of_tests(tree))
            found += (f"no encoding is named, so a locale chooses it: {call}" for call in unnamed_encodings(tree))
            del tree
    return [*broken_by_all(graph, ours, test_reaches), *found]


def broken_by_all(graph: Graph, ours: Mapping[str, Path], test_reaches: int) -> Iterator[str]:
    """Rules about all modules together."""
    for circle in circles(graph):
        if len(circle) > CIRCLE_FILES_MAX:
            yield f"import circle of {len(circle)} files: {', '.join(circle)}"
    for circle in circles(folders({name: graph[name] & ours.keys() for name in ours})):
        if not all(name in ours and "." in name and is_file(name) for name in circle):
            yield f"import circle between folders: {', '.join(circle)}"
    if test_reaches != TEST_REACHES:
        way_out = "lower TEST_REACHES to it" if test_reaches < TEST_REACHES else "--reaches lists them"
        yield f"tests use {test_reaches} private attributes of others' objects, and TEST_REACHES is {TEST_REACHES}: {way_out}"


def is_file(name: str) -> bool:
    return (ROOT / (name.replace(".", "/") + ".py")).exists()


def main() -> int:
    if "--reaches" in sys.argv[1:]:
        print("\n".join(private_reaches(modules(("tests",)))))
        return 0
    found = list(broken())
    print("\n".join(found) if found else "rules of the house: kept")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
