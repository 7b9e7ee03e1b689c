"""The log lines of level warning or above in libs/ and services/, found in their syntax trees.

An event is the text of a line. `…` stands for what is filled in when it is written.
"""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Final, NamedTuple

from tests.docs.house_rules import imports, modules
from tests.docs.syntax_trees import many_trees

LEVELS: Final = ("warning", "error", "critical")
"""From the mildest to the worst."""

RELAYS: Final = frozenset({"libs.telemetry.limited_lines"})
"""Modules that pass on lines of others."""

REFUSAL: Final = "CannotRun"
"""The exception by which a start ends; its message becomes the event."""

NOT_SERVICES: Final = frozenset({"services.dev", "services.local"})
"""What runs clusters on a developer's machine, and tells its user directly."""

SERVICES: Final = ("controller", "gateway", "storage", "group_coordinator", "transaction_coordinator", "quota_manager")
_LEVEL_OF_METHOD: Final = {"warning": "warning", "error": "error", "exception": "error", "critical": "critical"}
_FILLED_IN: Final = re.compile(r"%[sdr]")


class Line(NamedTuple):
    """One event that a module writes. `fault`: with a traceback, as only a fault of Penstock is."""

    event: str
    level: str
    module: str
    fault: bool


class Unreadable(Exception):
    """A log line whose text does not follow from the code: give it to the call as a literal."""


def lines_of(trees: Mapping[str, ast.Module]) -> list[Line]:
    """All lines of these modules, each once. Raises Unreadable."""
    return list(dict.fromkeys(line for name, tree in trees.items() if name not in RELAYS for line in _lines(name, tree)))


@cache
def written_lines() -> dict[str, list[Line]]:
    """By event: the lines of all services and libraries."""
    found: dict[str, list[Line]] = {}
    with many_trees():
        trees = {name: tree for name, tree in modules().items() if ".".join(name.split(".")[:2]) not in NOT_SERVICES}
        for line in lines_of(trees):
            found.setdefault(line.event, []).append(line)
    return found


def worst_level(lines: Iterable[Line]) -> str:
    return max((line.level for line in lines), key=LEVELS.index)


@cache
def services_by_module() -> dict[str, tuple[str, ...]]:
    """The services whose processes contain a module, by the imports that lead to it from `__main__`."""
    with many_trees():
        graph = imports(modules())
    reached = {service: _reached(graph, f"services.{service}.__main__") for service in SERVICES}
    return {name: tuple(service for service in SERVICES if name in reached[service]) for name in graph}


def _reached(graph: Mapping[str, set[str]], start: str) -> set[str]:
    seen, waiting = {start}, [start]
    while waiting:
        new = graph.get(waiting.pop(), set()) - seen
        seen |= new
        waiting.extend(new)
    return seen


def _lines(module: str, tree: ast.Module) -> Iterator[Line]:
    for call, inside in _calls(tree):
        told = _level_and_text(call, inside)
        if told is None:
            continue
        level, text = told
        traced = ast.unparse(call.func) == "log.exception" or any(keyword.arg == "exc_info" for keyword in call.keywords)
        for event in _texts(text, inside, tree):
            yield Line(event, level, module, traced)


def _calls(tree: ast.Module) -> Iterator[tuple[ast.Call, ast.AST]]:
    """Each call with the innermost function around it, or the module."""

    def walk(node: ast.AST, inside: ast.AST) -> Iterator[tuple[ast.Call, ast.AST]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Call):
                yield child, inside
            yield from walk(child, child if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)) else inside)

    return walk(tree, tree)


def _level_and_text(call: ast.Call, inside: ast.AST) -> tuple[str, ast.expr] | None:
    """The level of a log line, and the expression of its text. None: the call is no such line."""
    if isinstance(call.func, ast.Name) and call.func.id == REFUSAL and call.args:
        return "error", call.args[0]
    if not isinstance(call.func, ast.Attribute) or not call.args:
        return None
    method, owner = call.func.attr, call.func.value
    if isinstance(owner, ast.Name) and owner.id == "log":
        if method in _LEVEL_OF_METHOD:
            return _LEVEL_OF_METHOD[method], call.args[0]
        if method == "log":
            level = _named_level(call.args[0], inside)
            return (level, call.args[1]) if level in LEVELS else None
    if method == "write" and len(call.args) > 2:  # of LimitedLines
        level = _named_level(call.args[1], inside)
        return (level, call.args[2]) if level in LEVELS else None
    return None


def _named_level(expression: ast.expr, inside: ast.AST) -> str:
    """The worst of the levels that `logging.NAME` names in an expression, or in what its variable was assigned."""
    sources = [expression, *_assigned(expression, inside)]
    names = {
        node.attr.lower()
        for source in sources
        for node in ast.walk(source)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "logging"
    }
    return max((name for name in names if name in LEVELS), key=LEVELS.index, default="")


def _texts(text: ast.expr, inside: ast.AST, tree: ast.Module) -> Iterator[str]:
    match text:
        case ast.Constant(value=str(words)):
            yield _FILLED_IN.sub("…", words)
        case ast.JoinedStr(values=parts):
            yield "".join(part.value if isinstance(part, ast.Constant) else "…" for part in parts)
        case ast.IfExp(body=one, orelse=other):
            yield from _texts(one, inside, tree)
            yield from _texts(other, inside, tree)
        case ast.Call(func=ast.Name(id="str"), args=[ast.Name(id="refusal")]):
            return  # its line is where the refusal is made
        case ast.Name() if found := [*_assigned(text, inside), *_given(text, inside, tree)]:
            for source in found:
                yield from _texts(source, inside, tree)
        case _:
            raise Unreadable(ast.unparse(text))


def _assigned(name: ast.expr, inside: ast.AST) -> list[ast.expr]:
    """What a function assigns to a variable."""
    if not isinstance(name, ast.Name):
        return []
    found = []
    for node in ast.walk(inside):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == name.id:
            found.append(node.value)
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple) and isinstance(node.value, ast.Tuple):
            pairs = zip(node.targets[0].elts, node.value.elts, strict=True)
            found += [value for target, value in pairs if isinstance(target, ast.Name) and target.id == name.id]
    return found


def _given(name: ast.Name, inside: ast.AST, tree: ast.Module) -> list[ast.expr]:
    """What the callers in the same module give for a parameter."""
    if not isinstance(inside, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return []
    parameters = [parameter.arg for parameter in inside.args.args if parameter.arg != "self"]
    if name.id not in parameters:
        return []
    place = parameters.index(name.id)
    return [
        call.args[place]
        for call, _ in _calls(tree)
        if isinstance(call.func, ast.Attribute) and call.func.attr == inside.name and len(call.args) > place
    ]
