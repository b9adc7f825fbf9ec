"""The decisions of the engine, one file each, in the words of the trace.

A stage is a function `(run) -> None` that reads and changes a `WorkingPlan`. Which stages there
are, and in which order, belongs to a rule set (`workbench.core.versions`).
"""
