"""FlashAttention 3 as vLLM ships it and calls it: what it chooses on a Hopper GPU."""

from collections.abc import Callable
from pathlib import Path

import torch

from workbench.kernels.bench.flex_inputs import FlexInput
from workbench.kernels.bench.flex_peers import AttentionPeer
from workbench.kernels.bench.library_peers import check_flash_case, table_rows
from workbench.kernels.bench.peers import PeerKind
from workbench.kernels.bench.results import Piece
from workbench.kernels.bench.vllm_source import (
    VARIABLE,
    VllmSkipped,
    found_files,
    modules_of,
    run_file,
    source_of,
)

FOLDER = "vllm_flash_attn"
FILES = (f"{FOLDER}/__init__.py", f"{FOLDER}/flash_attn_interface.py")
VERSION = 3


class VllmFlashPeer(AttentionPeer):
    """vLLM's `flash_attn_varlen_func` over the pages as they are; the kernel decides the splits."""

    def __init__(self, attend: Callable[..., object], given: FlexInput) -> None:
        check_flash_case(given)
        self._attend, self._given = attend, given
        self.out = torch.empty_like(given.paged.query)

    def ready(self) -> None:
        """Copy the table, the lengths and where each request begins to the device."""
        batch, device = self._given.paged.batch, self._given.device
        self._table = table_rows(self._given)
        self._lengths = torch.from_numpy(batch.seq_lens).int().to(device)
        self._starts = torch.from_numpy(batch.query_start_loc).int().to(device)
        self._longest = int(batch.query_lens.max()), int(batch.seq_lens.max())
        self.metadata_bytes = sum(t.nbytes for t in (self._table, self._lengths, self._starts))

    def launch(self, piece: Piece = "attention") -> None:
        """Call the function once."""
        case, paged = self._given.case, self._given.paged
        self._attend(
            q=paged.query,
            k=paged.kv_cache[:, 0],
            v=paged.kv_cache[:, 1],
            out=self.out,
            cu_seqlens_q=self._starts,
            max_seqlen_q=self._longest[0],
            seqused_k=self._lengths,
            max_seqlen_k=self._longest[1],
            softmax_scale=case.head_dim**-0.5,
            causal=True,
            window_size=[case.window - 1, 0] if case.window else [-1, -1],
            block_table=self._table,
            fa_version=VERSION,
        )


def vllm_flash(folder: str) -> PeerKind:
    """Return FlashAttention 3 of the vLLM in a folder as a peer. VllmSkipped says why not."""
    root, texts = found_files(folder, FILES)
    source = source_of(root, texts, newer=True)
    if torch.version.cuda is None:
        raise VllmSkipped(f"{VARIABLE}: {FOLDER} needs a torch with CUDA")
    modules = modules_of({f"vllm.{FOLDER}": {}})
    # its compiled parts are in the same folder and are imported from there
    modules[f"vllm.{FOLDER}"].__path__ = [str(Path(root) / FOLDER)]
    names = vars(run_file(source, FILES[1], modules))
    if not names.get(f"FA{VERSION}_AVAILABLE"):
        reason = names.get(f"FA{VERSION}_UNAVAILABLE_REASON", "it has none")
        raise VllmSkipped(f"{VARIABLE}: FlashAttention {VERSION} of {source.name}: {reason}")
    attend = names["flash_attn_varlen_func"]
    name = f"{source.name} FlashAttention {VERSION}"
    return PeerKind(name, lambda given: VllmFlashPeer(attend, given), source.label)
