"""What a model is read as: every number with its entry of config.json, and the layers by kind."""

from collections.abc import Iterable

from workbench.core.model import SSM
from workbench.core.plan import Plan
from workbench.views.html import code, document, note, table, tag
from workbench.views.units import counted

LAYERS_SHOWN = 12
"""Numbers of layers that are listed of each kind."""


def model_fields_html(plan: Plan) -> str:
    """Return the numbers of the model with their entries of config.json, and its layers."""
    origins = plan.model.origins.values()
    return document(
        tag("h4", f"What {plan.model.name} is read as"),
        *map(note, plan.model.notes),
        table(
            ("number", "value", "from config.json"),
            ((code(name), value, code(source)) for name, value, source in origins),
        ),
        tag("h4", "Layers with a cache"),
        table(("kind", "layers", "numbers"), _kinds(plan)),
    )


def layers_text(plan: Plan) -> str:
    """Return how many layers of each kind the model has, and the heads of the attention."""
    state = f": {plan.model.state.kind}" if plan.model.state else ""
    named = {SSM: f"{SSM}{state}"}
    kinds = ", ".join(f"{count} ({named.get(kind, kind)})" for kind, count, _ in _kinds(plan))
    heads, size = plan.num_kv_heads_per_rank, plan.head_size
    each = f" {counted(heads, 'KV head')} of {size} elements on each rank." if heads else ""
    attention = plan.model.attention
    latent = " The attention is MLA." if attention is not None and attention.use_mla else ""
    return f"Layers with a cache: {kinds}.{latent}{each}"


def _kinds(plan: Plan) -> Iterable[tuple[str, str, str]]:
    by_kind: dict[str, list[int]] = {}
    for layer in plan.model.layers:
        by_kind.setdefault(layer.kind.replace("_", " "), []).append(layer.number)
    for kind, numbers in by_kind.items():
        more = " ..." if len(numbers) > LAYERS_SHOWN else ""
        listed = ", ".join(map(str, numbers[:LAYERS_SHOWN]))
        yield kind, counted(len(numbers), "layer"), f"{listed}{more}"
