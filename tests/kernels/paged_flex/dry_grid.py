"""Launch `paged_attention` dry over a grid of layers, masks and modes; print what came of each.

    python -m tests.kernels.paged_flex.dry_grid TARGETS pairs|full|NUMBER < /dev/null

"pairs": so few calls that every two values of two axes meet in one; "full": the whole product,
which takes a day; a number: so many of "pairs". Needs a process that only compiles.
"""

import itertools
import json
import random
import sys

from workbench.kernels.errors import PagedFlexError
from workbench.kernels.inspection import TARGETS
from workbench.kernels.inspection.dry_driver import dry_launches
from workbench.kernels.paged_flex import masks
from workbench.kernels.paged_flex.calls import KV_HEADS, attention_call

LENGTH = 1_100
"""Of the request of a decode, and no less than that of a prefill."""
AXES = {
    "dtype": ("float16", "bfloat16", "float32", "int8 cache", "float8_e4m3fn cache"),
    "head_dim": (64, 96, 128, 256, 512),
    "group": (1, 4, 8),
    "block_size": (16, 64, 256, 528),
    "mask": ("causal", "window", "chunked", "documents", "prefix LM"),
    "score": ("none", "soft cap", "alibi"),
    "mode": ("prefill", "decode", "bitwise", "bitwise decode"),
}
MASKS = {
    "causal": masks.causal,
    "window": lambda: masks.sliding_window(1024),
    "chunked": lambda: masks.chunked(512),
    "documents": lambda: masks.document([[LENGTH]]),
    "prefix LM": lambda: masks.prefix_lm([[(0, 9)]]),
}
REFUSED = "refused: "
FAILED = "failed: "
TRIED = 40


def pairs_of(call):
    """Every two values of two axes that a call has."""
    return set(itertools.combinations(enumerate(call), 2))


def every_two():
    """Calls in which all pairs meet: each has the most new pairs of some random ones."""
    pick = random.Random(18)
    open_pairs = set()
    for (a, left), (b, right) in itertools.combinations(enumerate(AXES.values()), 2):
        open_pairs |= {((a, x), (b, y)) for x in left for y in right}
    found = []
    while open_pairs:
        pair = dict(min(open_pairs, key=str))
        tried = [
            tuple(
                pair[axis] if axis in pair else pick.choice(values)
                for axis, values in enumerate(AXES.values())
            )
            for _ in range(TRIED)
        ]
        best = max(tried, key=lambda call: len(pairs_of(call) & open_pairs))
        found.append(best)
        open_pairs -= pairs_of(best)
    return found


def launched(call, launches):
    """The kernels that a call launches, or why it launches none."""
    given = dict(zip(AXES, call, strict=True))
    dtype, _, is_cache = given["dtype"].partition(" ")
    heads = KV_HEADS * given["group"]
    scores = {
        "none": None,
        "soft cap": lambda: masks.soft_cap(30.0),
        "alibi": lambda: masks.alibi([0.5] * heads),
    }
    made = attention_call(
        str(call),
        dtype="float16" if is_cache else dtype,
        cache_dtype=dtype if is_cache else None,
        head_dim=given["head_dim"],
        group=given["group"],
        block_size=given["block_size"],
        mask=MASKS[given["mask"]],
        score=scores[given["score"]],
        bitwise="bitwise" in given["mode"],
        decode="decode" in given["mode"],
    )
    launches.clear()
    try:
        made.run()
    except PagedFlexError as error:
        return f"{REFUSED}{error}"
    except Exception as error:  # noqa: BLE001 - each is a finding, and the next call is tried
        return f"{FAILED}{type(error).__name__}: {error}"[:300]
    return ", ".join(launch.binary.name for launch in launches)


def main(targets, part):
    """Launch for each target; the result is a JSON: target -> call -> text."""
    calls = list(itertools.product(*AXES.values())) if part == "full" else every_two()
    calls = calls[: int(part)] if part.isdigit() else calls
    found = {}
    for target in targets.split(","):
        with dry_launches(TARGETS[target]) as launches:
            found[target] = {str(call): launched(call, launches) for call in calls}
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
