"""List the packages, which `pyproject.toml` cannot do by itself.

Everything else is declared there. The folder `kernels/` becomes `workbench.kernels`, and a
sub-package added to either folder is picked up without touching any list. In a checkout,
`workbench/kernels` is a link to that folder, for interpreters and type checkers that look at
the source tree directly; it is excluded here, so that each file is packaged once.
"""

from setuptools import find_packages, setup

setup(
    packages=[
        *find_packages(include=["workbench", "workbench.*"], exclude=["workbench.kernels*"]),
        "workbench.kernels",
        *(f"workbench.kernels.{name}" for name in find_packages("kernels")),
    ]
)
