"""The command `workbench layout`."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from workbench.commands.options import fail, resolved


def layout(
    model: Annotated[str, typer.Argument(help="Catalog name, path, or hub id.")],
    setting: Annotated[
        list[str] | None, typer.Option("--set", "-s", help="A scenario field, as for resolve.")
    ] = None,
    num_blocks: Annotated[int, typer.Option(help="Number of manager blocks of the tensor.")] = 3,
    runner: Annotated[str, typer.Option(help="Model runner: v1 or v2.")] = "v1",
    layout_name: Annotated[
        str | None,
        typer.Option(
            "--layout", help="VLLM_KV_CACHE_LAYOUT: NHD or HND; in 0.33 and later LBNHC ..."
        ),
    ] = None,
    rule: Annotated[
        str | None,
        typer.Option(
            help="Hybrid rewrite, for example guessed or never; default: the runner's own."
        ),
    ] = None,
    layer: Annotated[
        str | None,
        typer.Option(
            help="Layer of the tensor, for example model.layers.3.attn; default: the first."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the layout as JSON.")] = False,
) -> None:
    """Print shapes, strides and block dimension of the cache views that share one tensor.

    Tensors may differ: name a layer. In 0.33 and later all layers share one allocation; the first
    attention and SSM layer are shown.
    """
    from workbench.core.layouts.error import LayoutError
    from workbench.core.layouts.of_plan import plan_layout
    from workbench.views.pages.layout_text import layout_text

    plan = resolved(model, setting or [])
    try:
        views = plan_layout(
            plan,
            num_blocks=num_blocks,
            runner=runner,
            layout=layout_name,
            rule=rule,
            layer=layer,
        )
    except LayoutError as error:
        if as_json:
            typer.echo(json.dumps({"error": error.to_dict()}, indent=2))
            raise typer.Exit(2) from None
        said = f"{error.vllm_exception or 'error'}: {error.vllm_text or 'without text'}"
        has_vllm_error = error.vllm_exception is not None or error.vllm_text is not None
        fail(
            f"error [{error.code}] {error.message}"
            + (f"\nvLLM says: {said}" if has_vllm_error else "")
        )
    if as_json:
        typer.echo(json.dumps(views.to_dict(), indent=2))
    else:
        typer.echo(f"{plan!r}\n\n{layout_text(views)}")
