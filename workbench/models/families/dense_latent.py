"""HY V4: latent attention whose layers read all tokens, where config.json makes none sparse.

Sources: `HYV4MLAAttention` and `HYV4Config` of 0.33.
"""

from dataclasses import replace

from workbench.core.errors import ConfigError
from workbench.core.model import FULL, Attention, Layer
from workbench.models.attention import read_attention
from workbench.models.family import register
from workbench.models.fields import Fields
from workbench.models.layer_lists import to_layers

LIST = "layer_types"


def _layers(fields: Fields) -> tuple[Layer, ...]:
    """Return full attention. Errors: ConfigError where a layer is not listed as that."""
    kinds, place = fields.raw(LIST), fields.pointer(LIST)
    if kinds is not None and (not isinstance(kinds, list) or set(map(str, kinds)) - {FULL}):
        raise ConfigError(
            "unread_field",
            f"{place} makes layers of HY V4 sparse, and how vLLM 0.33 chooses their backend and "
            "builds their indexers is not here. For the latents alone, which every layer keeps, "
            f"remove {place}: a plan then lacks the keys of the indexers.",
            field=place,
        )
    return to_layers([FULL] * fields.layer_count())


def _attention(fields: Fields) -> Attention:
    return replace(read_attention(fields), is_sparse=False, indexer=None)


register("hy_v4", {"hy_v4": ("HYV4ForCausalLM",)}, _layers, attention=_attention)
