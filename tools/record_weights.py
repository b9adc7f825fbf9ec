"""Record the bytes of real models' parameters and tables, as an installed vLLM makes them.

    ~/vllm-0.33/bin/python tools/record_weights.py < questions.jsonl > answers.jsonl

Run by the Python of that vLLM, without a GPU: models are built on torch's meta device, as rank 0 of
their ranks. Questions as for `record_cache_groups.py`; their memory is not used. Of a drafter,
`draft_bytes` is what it has of its own whatever its checkpoint holds, and
`draft_vocabulary_bytes` its embedding and head, which it may share with its target. With
`--quantization` of plain weights, `online` is the weights that become smaller as they load.
"""

import contextlib
import copy
import sys
from collections.abc import Iterator
from typing import Any

import record_cache_groups as groups

VISION = ("visual", "vision", "multi_modal_projector", "mm_projector")
"""Beginnings of the names in towers for images, which are recorded on their own."""


VOCABULARY = ("embed_tokens", "lm_head", "shared_head.head")
"""Modules of a drafter that may be the target's."""


def _answer(question: dict[str, Any], machine: Any) -> dict[str, Any]:
    import vllm
    from vllm.model_executor.layers.rotary_embedding import _ROPE_DICT
    from vllm_probe import configuration, models

    config = configuration.build(groups.probe_question(question), machine)
    if config.model_config.architecture.startswith("Transformers"):
        raise TypeError("vLLM has no class of its own for this model")
    stages = config.parallel_config.pipeline_parallel_size
    if stages > 1:
        return {"vllm": vllm.__version__, "stages": [_stage(config, at) for at in range(stages)]}
    _ROPE_DICT.clear()  # every model makes its tables again
    made: list[Any] = []
    with _collected(made):
        model = models.build(config).model
        if getattr(config.speculative_config, "method", None) == "medusa":
            _load_medusa(config, model)
    seen: set[Any] = set()
    answer = {"vllm": vllm.__version__, **_bytes(model, seen)}
    if question["arguments"].get("quantization"):
        answer["online"] = _online(model)
    return answer if len(made) < 2 else {**answer, **_draft_bytes(made[1], seen)}


def _stage(config: Any, stage: int) -> dict[str, int]:
    """Return the bytes of one pipeline stage."""
    from vllm.model_executor.layers.rotary_embedding import _ROPE_DICT
    from vllm_probe import models

    _ROPE_DICT.clear()
    return _bytes(models.build(copy.deepcopy(config), stage).model, set())


def _load_medusa(config: Any, model: Any) -> None:
    """Load heads that keep no cache, which the probe has no question about."""
    from vllm.config import set_current_vllm_config
    from vllm.v1.spec_decode.medusa import MedusaProposer

    with set_current_vllm_config(config):
        MedusaProposer(config, "meta").load_model(model)


@contextlib.contextmanager
def _collected(made: list[Any]) -> Iterator[None]:
    """Collect the tensors of models that are built, before anything is shared."""
    from vllm.model_executor.model_loader import utils

    initialize = utils.initialize_model

    def collect(*given: Any, **options: Any) -> Any:
        utils.initialize_model = initialize  # an outer model builds its parts
        model = initialize(*given, **options)
        utils.initialize_model = collect
        made.append([*model.named_parameters(), *model.named_buffers()])
        return model

    utils.initialize_model = collect
    yield
    utils.initialize_model = initialize


def _draft_bytes(tensors: list[tuple[str, Any]], seen: set[Any]) -> dict[str, int]:
    found = {"draft_bytes": 0, "draft_vocabulary_bytes": 0}
    for name, tensor in tensors:
        place = tensor.untyped_storage()._cdata  # noqa: SLF001  (meta tensors have no address)
        if place not in seen:
            seen.add(place)
            is_shared = any(part in name for part in VOCABULARY)
            kind = "draft_vocabulary_bytes" if is_shared else "draft_bytes"
            found[kind] += tensor.numel() * tensor.element_size()
    return found


def _bytes(model: Any, seen: set[Any]) -> dict[str, int]:
    """Return bytes of parameters and of other tensors; views of the same storage count once.

    A parameter that is built on the CPU stays in the memory of the host.
    """
    found = {"parameter_bytes": 0, "buffer_bytes": 0, "vision_bytes": 0}
    tensors = [
        *(
            ("parameter_bytes", name, one)
            for name, one in model.named_parameters()
            if one.device.type != "cpu"
        ),
        *(("buffer_bytes", name, one) for name, one in model.named_buffers()),
    ]
    for kind, name, tensor in tensors:
        place = tensor.untyped_storage()._cdata  # noqa: SLF001  (meta tensors have no address)
        if place in seen:
            continue
        seen.add(place)
        part = "vision_bytes" if name.startswith(VISION) else kind
        found[part] += tensor.numel() * tensor.element_size()
    return found


def _online(model: Any) -> dict[str, int]:
    """Return the elements of weights that wait to be quantized, those of experts apart."""
    found = {"linear": 0, "experts": 0, "vision": 0}
    for name, module in model.named_modules():
        if not getattr(getattr(module, "quant_method", None), "uses_meta_device", False):
            continue
        weights = [module._parameters.get(key) for key in ("weight", "w13_weight", "w2_weight")]  # noqa: SLF001
        kind = "linear" if weights[0] is not None else "experts"
        kind = "vision" if name.startswith(VISION) else kind
        found[kind] += sum(one.numel() for one in weights if one is not None)
    return found


if __name__ == "__main__":
    sys.exit(groups.answer_questions(_answer))
