"""What needs no GPU: the compiler's figures, bytes of metadata, and bits."""

from collections.abc import Sequence

import numpy as np

from workbench.kernels.bench.flex_inputs import FlexInput
from workbench.kernels.bench.flex_peers import BITWISE, FAST, FlexKind, FlexPeer
from workbench.kernels.bench.flex_rows import BitsRow, FlexGateRow, MetadataRow
from workbench.kernels.inspection import TARGETS, KernelReport, inspect_kernels
from workbench.kernels.paged_flex.api import default_settings, prepare
from workbench.kernels.paged_flex.bitwise import Kind, compare_bits, promised
from workbench.kernels.paged_flex.work import paged_batch

QUICK_TARGETS = ("sm_90",)
_PACKAGE = "workbench.kernels.paged_flex"
_MODULES = (
    (f"{_PACKAGE}.specs", tuple(TARGETS), "tiles for every device"),
    (f"{_PACKAGE}.wide_specs", ("sm_90", "sm_100"), "tiles of Hopper and B200"),
    (f"{_PACKAGE}.hopper_specs", ("sm_90",), "tile of Hopper"),
)
"""The kernels, and the targets that are given their tiles."""

VLLM_MODULE = "workbench.kernels.bench.vllm_attention_specs"


def flex_gate_rows(targets: Sequence[str], *, vllm: bool = False) -> list[FlexGateRow]:
    """Compile every shipped kernel for every target with its tiles; vllm: VLLM_SRC's too.

    InspectionError: the compiler's own words.
    """
    modules = list(_MODULES)
    if vllm:
        modules.append((VLLM_MODULE, tuple(TARGETS), "vLLM"))
    rows: list[FlexGateRow] = []
    for module, meant, source in modules:
        wanted = [target for target in meant if target in targets]
        reports = inspect_kernels(module, wanted) if wanted else ()
        rows += [_gate_row(report, source) for report in reports]
    return rows


def _gate_row(report: KernelReport, source: str) -> FlexGateRow:
    return FlexGateRow(
        report.kernel,
        report.target,
        report.registers,
        report.spill_bytes,
        report.shared_bytes,
        TARGETS[report.target].shared_memory_bytes,
        report.matrix_instructions,
        report.instructions,
        source,
    )


def metadata_row(
    kind: FlexKind, peer: FlexPeer, given: FlexInput, larger: FlexInput
) -> MetadataRow:
    """Return the bytes that a built peer holds, also for the same batch in a larger pool."""
    again = None
    if "dense" not in kind.name:
        other = kind.make(larger)
        other.build()
        again = other.metadata_bytes
    return MetadataRow(given.case.name, kind.name, peer.metadata_bytes, again)


def bits_rows(given: FlexInput) -> list[BitsRow]:
    """Compare the last request's bits alone, and in a step of its last queries, in both modes."""
    rows = []
    for mode in (FAST, BITWISE):
        settings = default_settings(given.device, bitwise=mode == BITWISE)
        mask = given.mask
        paged, batch = given.paged, given.paged.batch
        result = prepare(paged.query, paged.kv_cache, batch, mask=mask, settings=settings).run()
        row = batch.num_requests - 1
        own = paged.tokens_of(row)
        queries = own.stop - own.start
        ways = [("alone", queries)] if batch.num_requests > 1 else []
        ways += [("chunk", queries // 2)] if queries > 1 and given.case.is_causal else []
        for way, queries in ways:
            single = paged_batch(
                np.array([0, queries]),
                batch.seq_lens[row : row + 1],
                batch.block_table,
                num_blocks=batch.num_blocks,
                entry_tokens=batch.entry_tokens,
                idx_mapping=batch.rows[row : row + 1],
            )
            query = paged.query[own.stop - queries : own.stop]
            one = given.case.mask_of(1).on(given.device)
            again = prepare(query, paged.kv_cache, single, mask=one, settings=settings).run()
            kind: Kind = "batch" if way == "alone" else "chunks"
            trial = compare_bits(kind, way, result[own.stop - queries : own.stop], again)
            rows.append(
                BitsRow(
                    given.case.name,
                    mode,
                    way,
                    trial.elements,
                    trial.differing,
                    kind in promised(settings),
                )
            )
    return rows
