"""The messages of a start that continues with a loss; see `messages`."""

from __future__ import annotations

from workbench.interop.logs.message import Compare, message

LOSSES = (
    message(
        "block_size_precluded",
        "precluded higher-priority backend",
        r"--block-size (?P<block_size>\d+) precluded higher-priority backend\(s\) "
        r"(?P<precluded>[\w, ]+)\. Using (?P<backend>\w+) instead",
        "A faster backend was skipped only because it does not support the requested block size.",
        "Omit --block-size.",
        fields=lambda values: {"block_size": values["block_size"]},
        compares=(Compare("backend", of=lambda plan: plan.backend, rules=("backend",)),),
        codes=("block_size_precludes_backend",),
    ),
    message(
        "prefix_caching_off",
        "Disabling prefix caching",
        r"Disabling prefix caching(?: for (?P<backends>[\w/]+) with batch invariance|:)",
        "vLLM turned prefix caching off automatically.",
        "Use another backend if batch invariance is the reason.",
        fields=lambda values: {
            "enable_prefix_caching": False,
            **({"batch_invariant": True} if "backends" in values else {}),
        },
        is_distinct=False,
    ),
)
"""Losses, in the order of a start."""
