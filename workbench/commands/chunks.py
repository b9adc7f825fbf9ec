"""The command `workbench chunks`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import typer

from workbench.commands.options import AsJson, Settings, argument, fail, option
from workbench.commands.scenarios import resolved
from workbench.core.chunks.connectors import CONNECTORS, LMCACHE
from workbench.core.errors import shown

if TYPE_CHECKING:
    from workbench.core.plan import Plan

ENGINE = (
    "An engine: a quoted `vllm serve` command, or a model and its own fields, "
    "e.g. qwen3.5-4b,tensor_parallel=2."
)


def chunks(
    engines: list[str] = argument(ENGINE, ...),
    setting: Settings = None,
    connector: str | None = option(
        f"One of {', '.join(CONNECTORS)}; default: the engines' own, else {LMCACHE}."
    ),
    chunk: int | None = option("Chunk size to check, in tokens.", "--chunk"),
    prompt: int | None = option("Prompt whose cost is shown, in tokens.", "--prompt"),
    as_json: AsJson = False,
) -> None:
    """Show which chunk sizes are legal for engines that share a store, and what they cost.

    Engines of one model are also compared in pairs: can one prefill for the other?
    Exit status: 0 for an answer (also where a connector would refuse), 2 for a refusal or an error.
    """
    from workbench.core.chunks.request import chunks as answer
    from workbench.core.chunks.request import labelled
    from workbench.views.chunks.rows import chunks_dict

    plans = [_engine(text, setting) for text in engines]
    found = answer(labelled(plans), connector=connector, chunk_tokens=chunk, prompt_tokens=prompt)
    typer.echo(json.dumps(chunks_dict(found), indent=2) if as_json else repr(found))


def _engine(text: str, settings: list[str] | None) -> Plan:
    # a command may have commas, too
    model, *own = [text] if text.split()[1:] else text.split(",")
    if not model:
        fail(f"Invalid engine {shown(text)}. {ENGINE}")
    return resolved(model, [*(settings or ()), *own], "--set and the engine's own fields")
