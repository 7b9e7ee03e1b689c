"""Text files and pipes whose encoding nobody names: a locale would choose it, and not all locales are UTF-8.

Ruff's PLW1514 knows `open` and paths that it can infer. This rule also knows `read_text` and `write_text` of any object,
temporary files, and the pipes of child processes.
"""

import ast
from collections.abc import Iterator, Mapping

from tests.docs.syntax_trees import nodes_of_type

OPENS = {"open": 1, "fdopen": 1, "TemporaryFile": 0, "NamedTemporaryFile": 0, "SpooledTemporaryFile": 1}
"""Functions that open a file, and the position of their mode. The buffering and the encoding follow it."""
BINARY_BY_DEFAULT = frozenset(
    {"TemporaryFile", "NamedTemporaryFile", "SpooledTemporaryFile", "gzip.open", "bz2.open", "lzma.open"}
)
OTHER_OPENS = frozenset({"tarfile.open", "os.open", "webbrowser.open", "zipfile.open"})
"""Functions of this name that open no text."""
TEXTS = {"read_text": 0, "write_text": 1}
"""Methods of a path that read or write text, and the position of their encoding."""
CHILDREN = frozenset({"Popen", "call", "check_call", "check_output", "run"})
TEXT_PIPES = frozenset({"text", "universal_newlines"})
"""Arguments of those that start a child process: its pipes then carry text."""

WATCHED = CHILDREN | TEXTS.keys() | OPENS.keys()


def last_name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""


def unnamed_encodings(trees: Mapping[str, ast.Module]) -> Iterator[str]:
    """Each call that reads or writes text and names no encoding."""
    for name, tree in trees.items():
        for node in nodes_of_type(tree, ast.Call):
            if lacks_encoding(node):
                yield f"{name}:{node.lineno}: {ast.unparse(node.func)}"


def lacks_encoding(call: ast.Call) -> bool:
    if last_name(call.func) not in WATCHED:  # most calls, and to write them out takes a while
        return False
    keywords = {keyword.arg: keyword.value for keyword in call.keywords}
    if "encoding" in keywords or None in keywords:
        return False
    called = ast.unparse(call.func)
    name = called.rpartition(".")[2]
    if name in CHILDREN:
        return any(is_constant(keywords[each], True) for each in TEXT_PIPES & keywords.keys())
    if name in TEXTS:
        return len(call.args) <= TEXTS[name] and not has_starred(call)
    if name not in OPENS or called in OTHER_OPENS:
        return False
    # The method `open` of a path takes its mode first.
    place = 0 if name == "open" and not is_function(called) else OPENS[name]
    if len(call.args) > place + 2:
        return False
    mode = call.args[place] if len(call.args) > place else keywords.get("mode")
    if mode is None:
        return name not in BINARY_BY_DEFAULT and called not in BINARY_BY_DEFAULT and is_path_or_file(call, called)
    return isinstance(mode, ast.Constant) and isinstance(mode.value, str) and is_text_mode(mode.value, called)


def is_function(called: str) -> bool:
    return called in ("open", "io.open", "codecs.open", "gzip.open", "bz2.open", "lzma.open")


def is_path_or_file(call: ast.Call, called: str) -> bool:
    """False for another object's `open(…)` with arguments that are no mode, such as a log's."""
    return is_function(called) or called.rpartition(".")[2] != "open"


def is_text_mode(mode: str, called: str) -> bool:
    """Whether it is a mode of `open` at all, and one of text."""
    compressed = called in BINARY_BY_DEFAULT and called.endswith(".open")
    return bool(mode) and set(mode) <= set("rwaxbt+") and "b" not in mode and (not compressed or "t" in mode)


def is_constant(node: ast.expr, value: object) -> bool:
    return isinstance(node, ast.Constant) and node.value is value


def has_starred(call: ast.Call) -> bool:
    return any(isinstance(argument, ast.Starred) for argument in call.args)
