"""One thread in which everything is launched, so that a widget's callback never waits."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import TypeVar

Result = TypeVar("Result")


@cache
def _worker() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="workbench-launch")


def launch(job: Callable[[], Result]) -> Future[Result]:
    """Run `job` in the launching thread, without gradients, after all earlier jobs."""
    return _worker().submit(_without_gradients, job)


def _without_gradients(job: Callable[[], Result]) -> Result:
    import torch

    with torch.inference_mode():
        return job()
