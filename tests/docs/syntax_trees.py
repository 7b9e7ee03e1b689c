"""The nodes of syntax trees, for rules that each look at all of them, and the garbage collector kept away meanwhile."""

import ast
import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache


@cache
def nodes_of(tree: ast.AST) -> Sequence[ast.AST]:
    """As `ast.walk` has them. Kept, since half a dozen rules walk over the same 2,000 files."""
    return tuple(ast.walk(tree))


@contextmanager
def many_trees() -> Iterator[None]:
    """Millions of nodes are made here. The collector would walk over them again and again, for two thirds of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        nodes_of.cache_clear()
        if was_enabled:
            gc.enable()
