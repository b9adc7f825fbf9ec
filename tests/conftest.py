"""How thoroughly property tests search: few examples in `make quick` and `make test`.

`make thorough`, and pytest without a choice of markers, search with 500 examples and more;
`pytest --hypothesis-profile=long` takes hours and new examples every time.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections import defaultdict
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from workbench.kernels.mode import triton_mode

# The workers fill the cores: threads of torch in each would wait for one another, busily.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# jsonschema would build a grammar of IRIs for a second; no test has a format to check.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]

NO_HEALTH_CHECKS = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]

for _name, _examples in (("few", 25), ("thorough", 500), ("long", 20_000)):
    settings.register_profile(
        _name,
        max_examples=_examples,
        deadline=None,
        # The same examples every time, so that a commit fails for what it changed.
        derandomize=_name != "long",
        suppress_health_check=NO_HEALTH_CHECKS,
    )


def pytest_configure(config: pytest.Config) -> None:
    """Choose the profile by what is being run, unless one is named."""
    if config.getoption("--hypothesis-profile", None) is None:
        marks = config.getoption("markexpr", "")
        settings.load_profile("few" if "not thorough" in marks else "thorough")

    # A shell that starts the tests in the background ignores SIGINT, and so would every command
    # that a test interrupts.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)

    if config.getoption("tx", None) and not hasattr(config, "workerinput"):
        return  # It only hands tests to xdist's workers, and torch takes seconds to load.

    # Settle where kernels run before any test imports triton by way of torch.
    triton_mode()

    # Next to nothing of a collection of tests is garbage.
    gc.disable()


@pytest.fixture
def no_progress(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A learner who has tried nothing yet."""
    from workbench.exercises import check as checking  # after the mode of the kernels is settled

    monkeypatch.setenv("WORKBENCH_PROGRESS", str(tmp_path / "progress.json"))
    checking._wrong.clear()


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is fetched: the hub does not answer."""
    monkeypatch.setattr("workbench.models.hub.hub_answers", lambda: False)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave so many cases of a `sampled` test, evenly spread; the others are `thorough`.

    Those that are thorough already do not count.
    """
    cases = defaultdict[str, list[pytest.Item]](list)
    for item in items:
        if item.get_closest_marker("sampled") and not item.get_closest_marker("thorough"):
            cases[item.nodeid.partition("[")[0]].append(item)
    for found in cases.values():
        [count] = found[0].get_closest_marker("sampled").args  # type: ignore[union-attr]
        kept = {number * len(found) // count for number in range(count)}
        for number, item in enumerate(found):
            if number not in kept:
                item.add_marker(pytest.mark.thorough)


def pytest_collection_finish() -> None:
    """Thousands of tests and their modules stay to the end: no collection looks at them again."""
    gc.collect()
    gc.freeze()
    gc.enable()
