"""FlashAttention 3 as vLLM ships it and calls it: what it chooses on a Hopper GPU."""

from functools import partial
from typing import Any

import torch

from workbench.kernels.bench import vllm_source
from workbench.kernels.bench.flex_inputs import FlexInput
from workbench.kernels.bench.library_peers import FlashPeer, varlen_arguments
from workbench.kernels.bench.peers import PeerKind

FOLDER = "vllm_flash_attn"
FILES = (f"{FOLDER}/__init__.py", f"{FOLDER}/flash_attn_interface.py")
VERSION = 3


def vllm_arguments(given: FlexInput) -> dict[str, Any]:
    """Return what vLLM's `flash_attn_varlen_func` takes for a batch."""
    out = torch.empty_like(given.paged.query)
    return {**varlen_arguments(given), "out": out, "fa_version": VERSION}


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
    return PeerKind(name, partial(FlashPeer, attend, vllm_arguments), source.label)
