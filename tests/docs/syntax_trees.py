"""The nodes of syntax trees, for rules that each look at all of them, and the garbage collector kept away meanwhile."""

import ast
import gc
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TypeVar, cast

N = TypeVar("N", bound=ast.AST)

_depth = 0


@cache
def tree_of(path: Path) -> ast.Module:
    """Kept, since several pages and rules read the same 2,000 files."""
    return ast.parse(path.read_bytes())


@cache
def nodes_of(tree: ast.AST) -> Sequence[ast.AST]:
    """As `ast.walk` has them, in two thirds of its time. Kept, since half a dozen rules walk over the same files."""
    found = [tree]
    add = found.append
    for node in found:
        for value in node.__dict__.values():
            if isinstance(value, ast.AST):
                add(value)
            elif isinstance(value, list):
                for each in value:
                    if isinstance(each, ast.AST):
                        add(each)
    return found


@cache
def _by_type(tree: ast.AST) -> Mapping[type[ast.AST], Sequence[ast.AST]]:
    found: defaultdict[type[ast.AST], list[ast.AST]] = defaultdict(list)
    for node in nodes_of(tree):
        found[type(node)].append(node)
    return found


def nodes_of_type(tree: ast.AST, *kinds: type[N]) -> Iterator[N]:
    """The nodes of these classes, one class after the other. A rule that wants few of them passes over no others."""
    grouped = _by_type(tree)
    for kind in kinds:
        yield from cast("Sequence[N]", grouped.get(kind, ()))


@contextmanager
def many_trees() -> Iterator[None]:
    """Millions of nodes are made here. The collector would walk over them again and again, for two thirds of the time.

    Within another one it does nothing: the outermost lets go of all trees.
    """
    global _depth
    was_enabled = gc.isenabled()
    gc.disable()
    _depth += 1
    try:
        yield
    finally:
        _depth -= 1
        if not _depth:
            nodes_of.cache_clear()
            _by_type.cache_clear()
            tree_of.cache_clear()
        if was_enabled:
            gc.enable()
