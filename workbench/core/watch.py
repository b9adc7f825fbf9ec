"""A working plan that notes what stages read of it before they write it, and what they write."""

from functools import partial
from typing import Any

from workbench.core.trace import Rule
from workbench.core.working_plan import WorkingPlan

FIXED = frozenset({"model", "rules"})
"""What all decisions of one memory have in common."""
APPENDED = frozenset({"log_lines", "problems", "steps"})
"""What stages only add to."""
POOL_SETTINGS = frozenset(
    {
        *("kv_cache_memory_bytes", "kv_cache_memory_bytes_by_rank", "num_gpu_blocks_override"),
        *("gpu_memory_utilization", "weights_bytes", "activation_bytes", "cuda_graph_bytes"),
    }
)
"""Settings that no stage before `capacity` reads: they decide how large the pool is."""

UNREAD = POOL_SETTINGS | {"draft_model", "hf_overrides", "model"}
"""What no stage before `capacity` reads: both models are read by then."""


class Watch(WorkingPlan):
    """A plan that begins empty: a value is fetched and noted when it is read first."""

    __slots__ = ("plan", "read", "written")

    def __init__(self, plan: WorkingPlan) -> None:
        keep = partial(object.__setattr__, self)
        keep("plan", plan)
        keep("read", {})
        keep("written", set())
        keep("settings", _WatchedSettings(plan.settings, self.read))
        for name in FIXED:
            keep(name, getattr(plan, name))
        for name in APPENDED:
            keep(name, ())

    @property
    def is_traced(self) -> bool:  # type: ignore[override]  # of what it takes the place of
        """Return whether steps are recorded."""
        return bool(self.plan.is_traced)

    def step(self, rule: Rule, result: Any, note: str = "", /, **operands: Any) -> None:
        """Append one step to the trace, if there is one."""
        if self.plan.is_traced:
            super().step(rule, result, note, **operands)

    def __getattr__(self, name: str) -> Any:
        value = self.read[name] = getattr(self.plan, name)
        object.__setattr__(self, name, value)
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        self.written.add(name)
        object.__setattr__(self, name, value)


class _WatchedSettings:
    """Settings that note what is read of them."""

    def __init__(self, settings: object, read: dict[str, Any]) -> None:
        self.watched, self._read = settings, read

    def __getattr__(self, name: str) -> Any:
        value = self._read[f"settings.{name}"] = getattr(self.watched, name)
        vars(self)[name] = value
        return value


def kept_settings(settings: Any) -> Any:
    """Return settings for a plan that is kept: defaults where no stage reads them, others are read.

    A plan that a stage keeps is found again by what the stage has read, so it may hold nothing
    else: neither other settings of the run that made it nor what notes its reading.
    """
    plain = settings.watched if isinstance(settings, _WatchedSettings) else settings
    copy = object.__new__(type(plain))
    for name in vars(plain):
        is_kept = name not in UNREAD
        vars(copy)[name] = getattr(settings, name) if is_kept else getattr(type(plain), name)
    return copy
