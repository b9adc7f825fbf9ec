"""The labs: their titles, what each is called in `wb.lab`, and what it shows."""

from typing import NamedTuple


class LabKind(NamedTuple):
    """One lab: its name in `wb.lab`, where its panel is made, and what it shows in a line."""

    name: str
    panel: str
    line: str
    with_gpu: str = ""
    """What runs without a GPU, and what one adds; empty where nothing is launched."""


LABS = {
    "Page bytes": LabKind(
        "bytes", "pages:PagesPanel", "Where every byte of a page goes, and what byte N is."
    ),
    "Prefix hits": LabKind(
        "hits", "hits:HitsPanel", "The shortest prompt that can hit, and your workload."
    ),
    "Groups and capacity": LabKind(
        "capacity", "capacity:CapacityPanel", "Groups of layers, their tensors, and what fits."
    ),
    "Offload and transfer": LabKind(
        "offload", "offload:OffloadPanel", "Offload to host memory, and transfer to another engine."
    ),
    "Chunks": LabKind("chunks", "chunks:ChunksPanel", "Chunk sizes of a KV connector."),
    "Block tables": LabKind(
        "tables",
        "block_tables:BlockTablesPanel",
        "The real block-table kernels, step by step.",
        "Without a GPU, Triton's interpreter runs them and counts what they read and write; a GPU "
        "adds times and the share of its bandwidth.",
    ),
    "Flex attention": LabKind(
        "flex",
        "flex.panel:FlexPanel",
        "Legal tiles, the mask, and the real paged kernel.",
        "Without a GPU, Triton's interpreter or torch on the CPU runs it and the result is "
        "checked; a GPU adds times and rates.",
    ),
    "Model fields": LabKind(
        "fields",
        "tables:model_fields_panel",
        "What the model is read as: every number, its entry of config.json, and the layers.",
    ),
    "Backends by TP": LabKind(
        "backends", "tables:backends_panel", "Attention backends by tensor-parallel size."
    ),
    "Versions": LabKind(
        "versions", "versions:VersionsPanel", "What another vLLM version makes of the scenario."
    ),
    "Live check": LabKind(
        "live_check",
        "verify:VerifyPanel",
        "An installed vLLM answers the same question, field by field.",
        "It needs no GPU: the platform of the scenario is emulated.",
    ),
    "Sweeps": LabKind(
        "sweeps", "sweeps.panel:SweepsPanel", "Many configurations resolved, and the best of them."
    ),
    "Kernel sweeps": LabKind(
        "kernel_sweeps",
        "sweeps.kernels:KernelTuning",
        "Many kernel configurations measured: the quickest ones for a device.",
        "Without a GPU, Triton's interpreter checks a few small ones and measures no time; a GPU, "
        "here or at the address of a Dask scheduler, adds the times.",
    ),
    "Export": LabKind(
        "export", "export:ExportPanel", "The scenario as code, as flags, and as files."
    ),
}
"""Title -> lab, in the order of the links; plotly and torch come with some."""
