"""Weights of MiniMax-M3: an index in the projection of sparse layers, experts, and its tower.

Source: `vllm/models/minimax_m3`, 0.33.
"""

from workbench.core.weights import Part
from workbench.models.weights.joined_vision import vit
from workbench.models.weights.kinds import unscaled
from workbench.models.weights.listed_experts import ListedMoe
from workbench.models.weights.parts import Config, Sizes, attention, column, mlp, norms, row, whole

M3 = ("minimax_m3", "minimax_m3_text", "minimax_m3_vl")
"""Its model_types."""
PROJECTOR, MERGER = "vision_tower.multi_modal_projector", "vision_tower.patch_merge_mlp"
BLOCK = ("self_attn.qkv_proj", "self_attn.out_proj", "fc1", "fc2")
EXPERTS = ListedMoe(
    name="block_sparse_moe",
    shared=("n_shared_experts",),
    correction="use_routing_bias",
    router_dtype="float32",
    lists=("moe_layer_freq",),
)
AXES = 3
"""Of the angles: time, height and width."""


def minimax_m3_layer(config: Config, number: int) -> list[Part]:
    """Return a layer, which may have experts, and an index of keys."""
    if EXPERTS.has(config, number):
        feed = EXPERTS.parts(config, number)
    else:
        feed = mlp(config, "mlp", config.size("dense_intermediate_size"))
    listed = config.mapping("sparse_attention_config").get("sparse_attention_freq") or ()
    is_sparse = number in {at for at, one in enumerate(listed) if one}
    return [*_attention(config, is_sparse=is_sparse), *feed, *norms(config, 2)]


def minimax_m3_draft(config: Config, number: int) -> list[Part]:
    """Return a layer that drafts: sparse, and with experts."""
    mixer = _attention(config, is_sparse=True)
    return [*mixer, *EXPERTS.parts(config, number), *norms(config, 2)]


def _attention(config: Config, *, is_sparse: bool) -> list[Part]:
    """Return attention; the projection of a sparse layer makes an index, too."""
    qkv, *rest = attention(config, norm="head")
    if not is_sparse:
        return [qkv, *rest]
    sparse = config.mapping("sparse_attention_config")
    each = int(sparse["sparse_index_dim"])
    index = ((int(sparse["sparse_num_index_heads"]), each), (1, each))
    qkv = qkv._replace(outputs=(*qkv.outputs, *index))
    return [*unscaled([qkv, *rest]), *2 * [whole("self_attn.index_norm", each)]]


def minimax_m3_tower(config: Config, size: Sizes) -> list[Part]:
    """Return the tower, its projector, and what merges patches."""
    tower, top = vit(size, 1280, 5120, 16, 32, 14), config.fields.top
    patches = (top.get("vision_config") or {}).get("img_token_compression_config") or {}
    merged = int(patches.get("spatial_merge_size", 2)) ** 2
    pixels = tower.channels * int(patches.get("temporal_patch_size", 2)) * tower.patch**2
    middle = int(top.get("projector_hidden_size") or config.hidden)
    bias = bool(top.get("multimodal_projector_bias", True))
    angles = tower.width // tower.heads // 2 * 2 // AXES // 2
    return [
        whole("patch_embedding", tower.width, inputs=pixels),
        whole("pre_layrnorm", tower.width, bias=True),
        *tower.layers("vision_tower.vision_model.encoder.layers", BLOCK),
        column(f"{PROJECTOR}.linear_1", middle, inputs=tower.width, bias=bias),
        row(f"{PROJECTOR}.linear_2", middle, config.hidden, bias=bias),
        column(f"{MERGER}.linear_1", middle, inputs=merged * config.hidden, bias=True),
        row(f"{MERGER}.linear_2", middle, config.hidden, bias=True),
        *AXES * [whole("inv_freq", angles, dtype="float32")],
    ]
