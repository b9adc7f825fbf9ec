"""The command `workbench layout`."""

import json

import typer

from workbench.commands.options import AsJson, Model, Settings, fail, option
from workbench.commands.scenarios import resolved


def layout(
    model: Model,
    setting: Settings = None,
    num_blocks: int = option("Number of manager blocks of the tensor.", default=3),
    runner: str = option("Model runner: v1 or v2.", default="v1"),
    layout_name: str | None = option(
        "VLLM_KV_CACHE_LAYOUT: NHD or HND; in 0.33 and later LBNHC ...", "--layout"
    ),
    rule: str | None = option(
        "Stride rewrite for hybrid models, such as guessed or never; default: the runner's own."
    ),
    layer: str | None = option(
        "Layer of the tensor, for example model.layers.3.attn; default: the first."
    ),
    as_json: AsJson = False,
) -> None:
    """Print shapes, strides and block dimension of the cache views that share one tensor.

    Tensors may differ: choose one by a --layer in it. In 0.33 and later all layers share one
    allocation; the first attention layer and the first SSM layer are shown.
    """
    from workbench.core.layouts.error import LayoutError
    from workbench.core.layouts.of_plan import plan_layout
    from workbench.views.pages.layout_text import layout_text

    plan = resolved(model, setting)
    try:
        views = plan_layout(
            plan, num_blocks=num_blocks, runner=runner, layout=layout_name, rule=rule, layer=layer
        )
    except LayoutError as error:
        if as_json:
            typer.echo(json.dumps({"error": error.to_dict()}, indent=2))
            raise typer.Exit(2) from None
        said = ""
        if error.vllm_exception is not None or error.vllm_text is not None:
            name, text = error.vllm_exception or "error", error.vllm_text or "without text"
            said = f"\nvLLM says: {name}: {text}"
        fail(f"error [{error.code}] {error.message}{said}")
    text = f"{plan!r}\n\n{layout_text(views)}"
    typer.echo(json.dumps(views.to_dict(), indent=2) if as_json else text)
