"""Online quantization: plain weights that `--quantization` stores in fewer bits as they load.

Source: `get_quant_config` and the methods of `model_executor/layers/quantization/online`, 0.23 and
0.33. The bytes are those after `process_weights_after_loading`.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, NamedTuple

from workbench.core.formats import MX_BLOCK, Format
from workbench.core.model import Model
from workbench.core.weights import OF_TARGET, Part, UnreadWeights, Weights

if TYPE_CHECKING:
    from workbench.core.plan import Plan

FP8_TENSOR = Format(8, fixed_bytes=4)
"""One scale for a whole layer, its merged outputs together."""
FP8 = Format(8, scalars=1)
"""One for each of them, as in a checkpoint."""
FP8_BLOCK = Format(8, block=(128, 128), scale_bytes=4)
PER_CHANNEL = Format(8, block=(1, 0), scale_bytes=4)
MXFP8 = Format(8, block=(1, MX_BLOCK), scale_bytes=1)
MXFP4 = Format(4, block=(1, MX_BLOCK), scale_bytes=1)
NVFP4 = Format(4, block=(1, 16), scale_bytes=1, fixed_bytes=4)
BITS_AND_BYTES = Format(4, block=(1, 64), scale_bytes=4, is_integer=True)
"""Floats of bitsandbytes with the scales that its loader keeps next to a weight; scales of scales
are resolved as it loads (`_dequantize_dq` of bitsandbytes_loader.py, 0.23)."""
MXFP4_MULTIPLE = 64
"""To which experts in MXFP4 are rounded up where their kernel asks for no more."""


HUMMING = "humming"
DEEPSEEK_V4_FP8 = "deepseek_v4_fp8"
"""The word that stores the experts of another checkpoint in FP8 otherwise."""
OF_GPT_OSS = frozenset({"mxfp4", "gpt_oss_mxfp4"})
"""Methods, or words, of gpt-oss."""
OVERRULING = frozenset(
    {"modelopt", "modelopt_fp4", "modelopt_mxfp8", "modelopt_mixed", "auto-round", "inc"}
)
"""Methods of checkpoints that take any word for their own (`override_quantization_method`)."""


OVERRULING_OF = frozenset({("mxfp4", "gpt_oss"), ("fp8", "deepseek_v4")})
"""(method, model_type) that do the same (GptOssMxfp4Config, DeepseekV4FP8Config)."""


class Place(NamedTuple):
    """Where weights are loaded."""

    platform: str
    capability: tuple[int, int]
    """(0, 0) is none."""
    gfx: str
    """Architecture of an AMD device; empty for all others."""
    has_aiter: bool = False
    """AITER's kernels are on."""
    invariant: bool = False
    """Results may not depend on what else is in the batch."""

    def is_gfx(self, *known: str) -> bool:
        """Return whether an AMD device has an architecture like these; True for all others."""
        return not self.gfx or self.gfx.startswith(known)


class Need(NamedTuple):
    """What a device must have for a word."""

    device: str
    """What to use, in words."""
    vllm_text: str
    met: Callable[[Place], bool]
    of_experts: bool = False
    """Only models with routed experts need it."""


class OnlineMethod(NamedTuple):
    """What one word of `--quantization` makes of plain weights."""

    linear: Format | None = None
    """Of linear layers; None leaves them in the model's dtype."""
    experts: Format | None = None
    """Of routed experts, the same."""
    scales_cache: bool = False
    """Attention layers then have scales for the cache, too."""
    gates_experts: bool = False
    """Experts without a gate have the room of one, too."""
    needs: tuple[Need, ...] = ()
    """In the order in which vLLM tests them."""
    composes: bool = False
    """It also quantizes what a checkpoint that overrules the word leaves plain."""
    restores: bool = False
    """Experts of a checkpoint in fp8 are stored so, too, and scales of its blocks in one byte."""
    is_described: bool = True
    """Whether the bytes are known; False where vLLM starts with it and nothing says how."""


UNDESCRIBED = OnlineMethod(is_described=False)


def overrules(model: Model) -> bool:
    """Return whether the method of the checkpoint is kept, whatever `--quantization` says."""
    method = model.quantization
    return method in OVERRULING or (method, model.model_type) in OVERRULING_OF


def loading_method(plan: Plan) -> str | None:
    """Return the method that loads the weights: humming takes those of every checkpoint."""
    word = plan.settings.quantization
    return word if word == HUMMING else plan.model.quantization or word


def as_stored(model: Model) -> Model:
    """Return the model without `--quantization`."""
    return model if model.online is None else model.online[1]


def is_online(model: Model) -> bool:
    """Return whether `--quantization` alone says how its weights are stored."""
    return model.online is not None and model.online[0] == model.quantization


def as_loaded(model: Model, word: str | None, methods: Mapping[str, OnlineMethod]) -> Model:
    """Return a model as `--quantization` loads it, the same one where that changes nothing."""
    method = methods.get(word) if word else None
    if word is None or method is None:
        return model
    is_kept = not method.composes if overrules(model) else word != DEEPSEEK_V4_FP8
    if model.quantization is not None:
        if is_kept:
            return model
        method = method if method.composes else method._replace(linear=None)
    # Models are equal whatever their weights are.
    return _quantized(model, model.unread_weights, word, method)


def scale_methods(plan: Plan) -> Container[str | None]:
    """Return the methods whose attention layers have scales for the cache."""
    rules = plan.rules.quantization
    if not is_online(plan.model):
        return rules.kv_scale_methods
    return {word for word, one in rules.online_methods.items() if one.scales_cache}


@lru_cache(maxsize=256)
def _quantized(model: Model, plain: UnreadWeights, word: str, method: OnlineMethod) -> Model:
    return replace(
        model,
        quantization=model.quantization or word,
        online=(word, model),
        # what config.json says (`ModelConfig.is_quantized`)
        states_quantization=model.is_quantized,
        unread_weights=UnreadWeights(partial(_stored, plain, word, method)),
    )


def _stored(plain: UnreadWeights, word: str, method: OnlineMethod, part: str) -> Weights:
    weights = plain.of(part)
    if not method.is_described:
        return Weights(unknown=f"what --quantization {word} stores is not described")
    # A drafter with a checkpoint of its own is loaded as that checkpoint is
    # (`SpeculativeConfig.__post_init__`); MTP layers are the target's.
    if part and part not in OF_TARGET:
        return weights
    parts = tuple((_in_format(one, method), count) for one, count in weights.parts)
    sketch = tuple(_in_format(one, method) for one in weights.sketch)
    return weights._replace(parts=parts, sketch=sketch)


def _in_format(part: Part, method: OnlineMethod) -> Part:
    stored = method.experts if part.experts > 1 else method.linear
    known = None if method.restores and part.experts > 1 else part.stored
    if method.restores and known is not None and known.is_square:
        return part._replace(stored=known._replace(scale_bytes=1))
    if stored is None or known or not part.is_linear:
        return part
    # OnlineMoEMethodBase.create_weights makes two outputs of every expert, 0.23
    gated = method.gates_experts and part.has_one_output
    outputs = 2 * part.outputs if gated else part.outputs
    multiple = MXFP4_MULTIPLE if part.experts > 1 and stored == MXFP4 else part.multiple
    return part._replace(stored=stored, outputs=outputs, multiple=multiple)
