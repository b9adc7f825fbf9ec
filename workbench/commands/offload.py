"""The commands `workbench offload` and `workbench transfer`."""

import json

import typer

from workbench.commands.options import AsJson, Model, Settings, fail, option
from workbench.commands.scenarios import resolved
from workbench.core.errors import ScenarioError


def offload(
    model: Model,
    setting: Settings = None,
    cpu_memory: str | None = option('Host memory of all ranks, with a unit, e.g. "64 GiB".'),
    block_size: int | None = option("Offloaded block, in tokens; default: as on the GPU."),
    blocks_per_chunk: int | None = option("Offloaded block, in GPU blocks (0.33 and later)."),
    hash_block_size: int | None = option(
        "Unit of prefix hashes, in tokens.", "--hash-block-size", "--prefix-match-unit"
    ),
    world_size: int | None = option("Number of ranks; default: the tensor-parallel size."),
    prefill_context_parallel_size: int = option("Ranks of prefill context parallelism.", default=1),
    as_json: AsJson = False,
) -> None:
    """Check whether vLLM starts with KV offload to host memory, and show what the memory holds.

    Exit status: 0 for an answer (also where vLLM would stop), 2 for a refusal or an error.
    """
    from workbench.core.offload.plan import OffloadRequest
    from workbench.core.sizes import parse_bytes
    from workbench.views.offload.html import offload_text
    from workbench.views.offload.rows import offload_dict

    plan = resolved(model, setting)
    cpu_bytes = parse_bytes(cpu_memory or "", "--cpu-memory")
    try:
        request = OffloadRequest(
            block_size=block_size,
            cpu_bytes_to_use=cpu_bytes,
            world_size=world_size,
            prefill_context_parallel=prefill_context_parallel_size,
            hash_block_size=hash_block_size,
            blocks_per_chunk=blocks_per_chunk,
        )
        rows = offload_dict(plan, request)
    except ScenarioError:
        raise
    except ValueError as error:
        fail(f"error [out_of_range] {error}")
    typer.echo(json.dumps(rows, indent=2) if as_json else offload_text(plan, request))


def transfer(
    model: Model,
    setting: Settings = None,
    prefill: list[str] | None = option("A field of the prefill side, field=value."),
    decode: list[str] | None = option("A field of the decode side, field=value."),
    as_json: AsJson = False,
) -> None:
    """Check whether one engine can prefill for another: whether their caches are compatible.

    Exit status: 0 for an answer (also where vLLM would refuse), 2 for a refusal or an error.
    """
    from workbench.views.offload.transfer import transfer_dict, transfer_text

    there = resolved(model, [*(setting or ()), *(prefill or ())], "--prefill and --set")
    here = resolved(model, [*(setting or ()), *(decode or ())], "--decode and --set")
    rows = transfer_dict(there, here)
    typer.echo(json.dumps(rows, indent=2) if as_json else transfer_text(there, here))
