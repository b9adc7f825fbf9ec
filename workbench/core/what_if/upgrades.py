"""Comparisons of two versions for many models, which show themselves as one table."""

from workbench.core.what_if.differences import Comparison


class Upgrades(tuple[Comparison, ...]):
    """What an upgrade changes for many models, one row per model.

    >>> wb.compare_catalog(plan.scenario)[0].model.name
    'bamba-9b'
    """

    __slots__ = ()

    def __repr__(self) -> str:
        from workbench.views.versions.differences import matrix_text

        return matrix_text(self)

    def _repr_html_(self) -> str:
        from workbench.views.versions.differences import matrix_html

        return matrix_html(self)
