"""Files import from ringtree at their head, and their imports form no cycle."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.sources import parsed

ROOT = Path(__file__).parent.parent / "src"
MAY = {"ringtree.ir.schedule: __str__"}
"""The functions that import: an object is printed by what is built upon it."""

Found = tuple[str, str, bool]
"""An import: its module, its function ("" for none), and whether it is for the type checker alone."""


def files() -> dict[str, Path]:
    """By the modules' names; a package's is that of its __init__.py."""
    named = {}
    for path in sorted((ROOT / "ringtree").rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        named[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return named


FILES = files()


def imports(tree: ast.AST, function: str = "", typing: bool = False) -> Iterator[Found]:
    """Imports of ringtree's modules. `from ringtree.price import x` is one of the package, unless x is a file of it."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from ((name.name, function, typing) for name in node.names if name.name in FILES)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "expected imports by whole names"
            wanted = {f"{node.module}.{name.name}" for name in node.names}
            yield from ((name if name in FILES else node.module or "", function, typing) for name in sorted(wanted))
        elif isinstance(node, (ast.stmt, ast.excepthandler, ast.match_case)):
            inner = node.name if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) else function
            checked = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
            yield from imports(node, inner, typing or checked)


@cache
def read() -> dict[str, list[Found]]:
    found = {module: imports(parsed(path)) for module, path in FILES.items()}
    return {module: [each for each in its if each[0] in FILES] for module, its in found.items()}


def circles(needs: dict[str, set[str]]) -> list[list[str]]:
    """Import cycles: strongly connected components of more than one module (Tarjan 1972)."""
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    path: list[str] = []
    found = []

    def visit(module: str) -> None:
        order[module] = lowest[module] = len(order)
        path.append(module)
        for other in sorted(needs[module]):
            if other not in order:
                visit(other)
            if other in path:
                lowest[module] = min(lowest[module], lowest[other])
        if lowest[module] == order[module]:
            begin = path.index(module)
            if len(path) > begin + 1:
                found.append(sorted(path[begin:]))
            del path[begin:]

    for module in needs:
        if module not in order:
            visit(module)
    return found


def test_imports_are_at_the_head_of_a_file() -> None:
    inside = {f"{module}: {function}" for module, its in read().items() for _, function, _ in its if function}
    assert inside == MAY


def test_imports_form_no_cycle() -> None:
    needs = {
        module: {name for name, function, typing in its if not function and not typing and name != module}
        for module, its in read().items()
    }
    assert not circles(needs)
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == [["b", "c"]]
