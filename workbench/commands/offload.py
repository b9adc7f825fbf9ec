"""The commands `workbench offload` and `workbench transfer`."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from workbench.commands.options import fail, resolved
from workbench.core.errors import ScenarioError

Model = Annotated[str, typer.Argument(help="Catalog name, path, or hub id.")]
Setting = Annotated[
    list[str] | None, typer.Option("--set", "-s", help="A scenario field, as for resolve.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


def offload(
    model: Model,
    setting: Setting = None,
    cpu_memory: Annotated[
        str | None, typer.Option(help='Host memory of all ranks, with a unit, e.g. "64 GiB".')
    ] = None,
    block_size: Annotated[
        int | None, typer.Option(help="Offloaded block, in tokens; default: as on the GPU.")
    ] = None,
    blocks_per_chunk: Annotated[
        int | None, typer.Option(help="Offloaded block, in GPU blocks (0.33 and later).")
    ] = None,
    hash_block_size: Annotated[
        int | None,
        typer.Option(
            "--hash-block-size", "--prefix-match-unit", help="Unit of prefix hashes, in tokens."
        ),
    ] = None,
    world_size: Annotated[
        int | None, typer.Option(help="Number of ranks; default: tensor parallelism.")
    ] = None,
    decode_context_parallel_size: Annotated[
        int, typer.Option(help="Ranks of decode context parallelism.")
    ] = 1,
    prefill_context_parallel_size: Annotated[
        int, typer.Option(help="Ranks of prefill context parallelism.")
    ] = 1,
    as_json: AsJson = False,
) -> None:
    """Check whether vLLM starts with KV offload to host memory, and show what the memory holds.

    Exit status: 0 for an answer (also where vLLM would stop), 2 for a refusal or an error.
    """
    from workbench.core.offload.plan import OffloadRequest
    from workbench.scenario.sizes import parse_bytes
    from workbench.views.offload.html import offload_text
    from workbench.views.offload.rows import offload_dict

    plan = resolved(model, setting or [])
    try:
        request = OffloadRequest(
            block_size=block_size,
            cpu_bytes_to_use=parse_bytes(cpu_memory or "", "--cpu-memory"),
            world_size=world_size,
            decode_context_parallel=decode_context_parallel_size,
            prefill_context_parallel=prefill_context_parallel_size,
            hash_block_size=hash_block_size,
            blocks_per_chunk=blocks_per_chunk,
        )
        said = (
            json.dumps(offload_dict(plan, request), indent=2)
            if as_json
            else offload_text(plan, request)
        )
    except ScenarioError as error:
        fail(f"error [{error.code}] {error.message}")
    except ValueError as error:
        fail(f"error [out_of_range] {error}")
    typer.echo(said)


def transfer(
    model: Model,
    setting: Setting = None,
    prefill: Annotated[
        list[str] | None, typer.Option(help="A field of the prefill side, field=value.")
    ] = None,
    decode: Annotated[
        list[str] | None, typer.Option(help="A field of the decode side, field=value.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check whether one engine can prefill for another: whether their caches are compatible.

    Exit status: 0 for an answer (also where vLLM would refuse), 2 for a refusal or an error.
    """
    from workbench.views.offload.transfer import transfer_dict, transfer_text

    common = setting or []
    there = resolved(model, [*common, *(prefill or [])], "--prefill and --set")
    here = resolved(model, [*common, *(decode or [])], "--decode and --set")
    typer.echo(
        json.dumps(transfer_dict(there, here), indent=2) if as_json else transfer_text(there, here)
    )
