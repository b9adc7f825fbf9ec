"""`python -m workbench`."""

from workbench.cli import app

app()
