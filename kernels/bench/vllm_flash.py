"""FlashAttention 3 as vLLM ships it and calls it: what it chooses on a Hopper GPU."""

from collections.abc import Callable

import torch

from workbench.kernels.bench import vllm_source
from workbench.kernels.bench.flex_inputs import FlexInput
from workbench.kernels.bench.flex_peers import AttentionPeer
from workbench.kernels.bench.library_peers import check_flash_case, varlen_arguments
from workbench.kernels.bench.peers import PeerKind
from workbench.kernels.bench.results import Piece

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
        self._arguments = varlen_arguments(self._given)
        names = ("block_table", "seqused_k", "cu_seqlens_q")
        self.metadata_bytes = sum(self._arguments[name].nbytes for name in names)

    def launch(self, piece: Piece = "attention") -> None:
        """Call the function once."""
        self._attend(**self._arguments, out=self.out, fa_version=VERSION)


def vllm_flash(folder: str) -> PeerKind:
    """Return FlashAttention 3 of the vLLM in a folder as a peer. VllmSkipped says why not."""
    root, texts = vllm_source.found_files(folder, FILES)
    source = vllm_source.source_of(root, texts, newer=True)
    if torch.version.cuda is None:
        raise vllm_source.VllmSkipped(f"{vllm_source.VARIABLE}: {FOLDER} needs a torch with CUDA")
    modules = vllm_source.modules_of({f"vllm.{FOLDER}": {}})
    # its compiled parts are in the same folder and are imported from there
    modules[f"vllm.{FOLDER}"].__path__ = [str(root / FOLDER)]
    names = vars(vllm_source.run_file(source, FILES[1], modules))
    if not names.get(f"FA{VERSION}_AVAILABLE"):
        reason = names.get(f"FA{VERSION}_UNAVAILABLE_REASON", "it has none")
        raise vllm_source.VllmSkipped(
            f"{vllm_source.VARIABLE}: FlashAttention {VERSION} of {source.name}: {reason}"
        )
    attend = names["flash_attn_varlen_func"]
    name = f"{source.name} FlashAttention {VERSION}"
    return PeerKind(name, lambda given: VllmFlashPeer(attend, given), source.label)
