"""Sweeps of the block tables: which tiles are legal and fit; wrong ones have no time."""

from __future__ import annotations

import pytest
import torch

from workbench.kernels.bench.machine import NO_GPU
from workbench.kernels.block_table.api import PATHS, BlockTables
from workbench.kernels.block_table.compare import differences
from workbench.kernels.block_table.groups import TableGroup
from workbench.kernels.block_table.reference import ReferenceTables
from workbench.kernels.errors import BlockTableError
from workbench.kernels.mode import triton_mode
from workbench.sweeps.kernels.kernel_session import KERNELS
from workbench.sweeps.kernels.lanes import Lane
from workbench.sweeps.kernels.place import Place
from workbench.sweeps.kernels.table_path import Tiles, tuned_path
from workbench.sweeps.kernels.tables import (
    AXES,
    candidates,
    kernel_hash,
    measure,
    spec_names,
    tiles_of,
)
from workbench.sweeps.store import ResultStore

GOOD = {
    "apply_ids": 64,
    "programs_per_processor": 2,
    "slot_tokens": 64,
    "tile_entries": 128,
    "tile_columns": 32,
    "num_warps": 4,
}
IN_INTERPRETER = pytest.mark.skipif(
    triton_mode().mode != "interpreter", reason="this is the flow without a GPU"
)


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"apply_ids": 48}, "apply_ids"),
        ({"slot_tokens": 16}, "slot_tokens"),
        ({"tile_entries": 96}, "tile_entries"),
        ({"tile_columns": 256}, "tile_columns"),
        ({"tile_columns": 16}, "tile_columns"),
        ({"num_warps": 3}, "num_warps"),
        ({"num_warps": 64}, "num_warps"),
        ({"programs_per_processor": 0}, "programs_per_processor"),
        ({"tile_entries": 1 << 21}, "tile_entries"),
    ],
)
def test_illegal_tiles_name_their_field(changed, field):
    with pytest.raises(BlockTableError) as caught:
        tiles_of({**GOOD, **changed})
    assert caught.value.field == field
    assert str(caught.value.limit) in str(caught.value)


def test_illegal_configurations_are_skipped_and_counted():
    found = candidates(None, axes={"slot_tokens": (64, 100), "tile_columns": (32, 8192)})
    whole = len(AXES["apply_ids"]) * len(AXES["tile_entries"]) * len(AXES["num_warps"])
    assert found.illegal == {"slot_tokens": 2 * whole, "tile_columns": whole}
    assert len(found.configs) == whole
    assert "36 illegal (slot_tokens, tile_columns) and 0 unfit" in found.skipped_text


@IN_INTERPRETER
@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"apply_ids": 512, "slot_tokens": 32, "programs_per_processor": 1},
        {"tile_entries": 4096, "tile_columns": 128, "slot_tokens": 1024},
        {"tile_entries": 32},
    ],
)
@pytest.mark.parametrize("max_requests", [1, 7])
def test_any_legal_tile_gives_what_the_oracle_gives(changed, max_requests):
    groups = (TableGroup(48, 16, 23), TableGroup(112, 112, 9))
    sizes = {"max_requests": max_requests, "max_tokens": 83}
    with tuned_path(Tiles(**{**GOOD, **changed})) as name:
        tables = BlockTables(groups, **sizes, num_blocks=997, path=name)
    assert name not in PATHS
    model = ReferenceTables(groups, max_requests=max_requests)
    pick = torch.Generator().manual_seed(7)
    rows = list(range(max_requests))[::-1]
    for row in rows:
        count = int(torch.randint(2, 9, (1,), generator=pick))
        ids = [torch.randint(997, (count,), generator=pick).tolist() for _ in groups]
        tables.append(row, ids)
        model.append(row, ids)
    starts = [0, *range(5, 5 * max_requests + 1, 5)]
    positions = [token for _ in rows for token in range(40, 45)]
    tables.step(rows, starts, positions)
    model.apply()
    assert differences(tables, model, rows, starts, positions) == ()


@IN_INTERPRETER
def test_the_flow_in_the_interpreter_has_verdicts_and_no_times(tmp_path):
    kernel = KERNELS["block-table"]
    place = Place(NO_GPU, None, [Lane()])
    chosen = kernel.chosen(place, first=1)
    assert chosen.illegal
    with ResultStore(tmp_path / "results.db") as store:
        progress = kernel.sweep(store, chosen, place=place).run()
        rows = kernel.rows(store)
    assert (progress.measured, progress.failed) == (2, 0)
    assert {row.key.config_values["bucket"] for row in rows} == {"W2 reduced", "W5 reduced"}
    for row in rows:
        assert row.correct
        assert row.median_s is None
        assert row.provenance["source"] == row.key.kernel_hash == kernel_hash()
    assert kernel.winners(rows) == ()


@IN_INTERPRETER
def test_a_wrong_table_is_a_row_without_a_time(monkeypatch):
    from workbench.sweeps.kernels.table_path import TunedPath

    right = TunedPath.launch_gather_and_slots

    def wrong(self):
        right(self)
        self.tables[0][0, 0] += 1

    monkeypatch.setattr(TunedPath, "launch_gather_and_slots", wrong)
    row = measure({**GOOD, "bucket": "W5 reduced", "reduced": True})
    assert (row["status"], row["correct"]) == ("wrong", False)
    assert "kernel block 0" in row["message"]
    assert "median_s" not in row


@pytest.mark.thorough
@pytest.mark.slow
def test_what_spills_is_skipped_by_compiling():
    axes = {
        "apply_ids": (256,),
        "slot_tokens": (256,),
        "tile_entries": (2048, 16384),
        "tile_columns": (128,),
        "num_warps": (4,),
    }
    found = candidates("sm_90", axes=axes)
    [kept] = found.configs
    assert kept["tile_entries"] == 2048
    assert kept["shared_bytes"] >= 0
    assert found.unfit == {"spills registers": 1}


@pytest.mark.thorough
@pytest.mark.slow
def test_of_a_few_configurations_few_are_compiled(monkeypatch):
    from workbench.kernels.inspection import api

    compiled = []

    def counted(*given, **options):
        reports = inspect(*given, **options)
        compiled.append({report.kernel for report in reports})
        return reports

    inspect = api.inspect_kernels
    monkeypatch.setattr(api, "inspect_kernels", counted)
    axes = {"apply_ids": (256,), "num_warps": (4,), "tile_entries": (16384, 2048, 1024, 4096)}
    found = candidates("sm_90", first=1, axes={**axes, "tile_columns": (128,)})
    [kept] = found.configs
    assert (kept["tile_entries"], kept["slot_tokens"]) == (2048, 256)
    assert found.unfit == {"spills registers": 1}
    # one that spills, then two: each has two kernels, of which some are equal
    assert 4 <= sum(map(len, compiled)) <= 6


def test_equal_specialisations_are_compiled_once():
    other, equal = {**GOOD, "slot_tokens": 32}, {**GOOD, "programs_per_processor": 1}
    assert spec_names(equal) == spec_names(GOOD)
    assert not set(spec_names(other)) & set(spec_names(GOOD))
