"""The leader board of the site: what every model of the catalog gets on every device.

    python tools/site_board.py             # print how many scenarios start, and how long it took

`make site` writes the result next to the page, so an entry of the catalog or a rule that changes
changes the board.
"""

import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from typing import Any

import workbench as wb
from workbench.core.architectures import MODEL_REGISTRIES
from workbench.core.capacity.occupancy import waste
from workbench.core.errors import WorkbenchError
from workbench.models.catalog import catalog_names
from workbench.sweeps.front import GOALS
from workbench.sweeps.row import row_of
from workbench.views.sweeps.rows import MEASURES, short_name, value_text

Row = dict[str, Any]
VARIED: dict[str, tuple[Any, ...]] = {
    "device": ("H100", "B200", "A100-80GB", "MI300X"),
    "tensor_parallel": (1, 2, 4, 8),
    "kv_cache_dtype": ("auto", "fp8"),
    "num_speculative_tokens": (0, 1),
    "rules": tuple(MODEL_REGISTRIES),
}
SAME = {"enable_prefix_caching": True}
PROMPT_TOKENS = 4096
"""Of the request whose waste is reported."""
IDLE, STARTS = "idle_request_bytes", "starts"
NUMBERS = {
    name: MEASURES.get(name, text)
    for name, text in {
        "concurrency_per_gpu": "",
        "smallest_prefix_tokens": "",
        IDLE: "bytes of an idle request, per GPU",
        "waste_share": "",
        "block_size": "",
    }.items()
}
"""Column -> heading."""
ABOUT = (
    "Every model of the catalog with prefix caching, and the default of everything else that has "
    "no column. Concurrency: requests of full length that fit, by the estimate of memory that the "
    "front door shows. An idle request has one token: its bytes are states and the first block. "
    f"Waste: of a request of {PROMPT_TOKENS:,} tokens."
)


def board(models: Sequence[str]) -> dict[str, Any]:
    """Return the board: what it shows, its columns, and a row of places in them per scenario.

    models: names of the catalog.

    A column: name, heading, whether it is a field of the scenario, whether a large value is a good
    one (None: neither), and its values, each with its text. `same`: fields of every scenario.
    """
    with ProcessPoolExecutor() as executor:
        rows = [row for rows in executor.map(rows_of, models) for row in rows]
    fields = ("model", *VARIED)
    names = (*fields, STARTS, *NUMBERS)
    places: dict[str, dict[Any, int]] = {name: {} for name in names}
    table = [[_place(places[name], row[name]) for name in names] for row in rows]
    columns = [
        {
            "name": name,
            "label": NUMBERS.get(name, short_name(name)),
            "field": name in fields,
            "best": {1: "large", -1: "small"}.get(GOALS.get(name, -1 if name == IDLE else 0)),
            "values": [[value, value_text(name, value)] for value in places[name]],
        }
        for name in names
    ]
    return {"about": ABOUT, "same": SAME, "columns": columns, "rows": table}


def rows_of(model: str) -> list[Row]:
    """Return the rows of a model of the catalog."""
    return [
        {"model": model, **sets, **_numbers(model, sets)}
        for values in product(*VARIED.values())
        for sets in [dict(zip(VARIED, values, strict=True))]
    ]


def _place(places: dict[Any, int], value: Any) -> int:
    return places.setdefault(value, len(places))


def _numbers(model: str, sets: Row) -> Row:
    try:
        plan = wb.resolve(model=model, **SAME, **sets)
    except WorkbenchError as error:
        return {STARTS: f"refused: {error.code}"} | dict.fromkeys(NUMBERS)
    row = row_of(plan, PROMPT_TOKENS)
    if plan.errors:
        return {STARTS: f"no: {plan.errors[0].code}"} | dict.fromkeys(NUMBERS)
    idle = waste(plan, plan.cache, 1).reserved_bytes if plan.cache and plan.cache.groups else None
    return {STARTS: "yes"} | {name: row.get(name) for name in NUMBERS} | {IDLE: idle}


def main() -> int:
    """Run from the command line."""
    start = time.perf_counter()
    found = board(catalog_names())
    column = [one["name"] for one in found["columns"]].index(STARTS)
    values = found["columns"][column]["values"]
    starting = sum(values[row[column]][0] == "yes" for row in found["rows"])
    seconds = time.perf_counter() - start
    print(f"{len(found['rows']):,} scenarios, {starting:,} start; {seconds:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
