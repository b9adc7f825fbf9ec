"""Parse cells as Python syntax, with magics and top-level `await`."""

from __future__ import annotations

import ast


def python_text(source: str) -> str:
    """Return the cell's source as the Python that IPython would run (magics become calls)."""
    from IPython.core.inputtransformer2 import TransformerManager

    return TransformerManager().transform_cell(source)


def parse_cell(source: str) -> ast.Module:
    """Return the syntax tree of a cell. Raises SyntaxError."""
    return ast.parse(python_text(source))


class _Synchronous(ast.NodeTransformer):
    """The same program without `await`: the compiler's symbol tables refuse it at top level."""

    def visit_Await(self, node: ast.Await) -> ast.AST:
        return self.visit(node.value)

    def visit_AsyncFor(self, node: ast.AsyncFor) -> ast.AST:
        self.generic_visit(node)
        return ast.For(**dict(ast.iter_fields(node)))

    def visit_AsyncWith(self, node: ast.AsyncWith) -> ast.AST:
        self.generic_visit(node)
        return ast.With(**dict(ast.iter_fields(node)))

    def visit_comprehension(self, node: ast.comprehension) -> ast.AST:
        self.generic_visit(node)
        node.is_async = 0
        return node


def without_await(tree: ast.Module) -> str:
    """Return Python text of the tree without any `await`."""
    return ast.unparse(ast.fix_missing_locations(_Synchronous().visit(tree)))
