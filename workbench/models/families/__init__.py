"""One reader per model family; importing this package registers them.

To add a family: write a module that calls `register`, and import it here.
"""

from workbench.models.families import linear, mamba, searched

__all__ = ["linear", "mamba", "searched"]
