"""Configuration sweeps: many scenarios at once, equal to the rules one by one."""

from workbench.run.sweeps.evaluate import SweepMismatchError, evaluate
from workbench.run.sweeps.space import Space
from workbench.run.sweeps.table import SweepTable

__all__ = ["Space", "SweepMismatchError", "SweepTable", "evaluate"]
