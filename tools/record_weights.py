"""Record the bytes of real models' parameters and tables, as an installed vLLM makes them.

    ~/vllm-0.33/bin/python tools/record_weights.py < questions.jsonl > answers.jsonl

Run by the Python of that vLLM, without a GPU: models are built on torch's meta device, as rank 0 of
their ranks. Questions as for `record_cache_groups.py`; their memory and drafters are not used.
"""

import json
import os
import sys
from typing import Any

import record_cache_groups as groups

VISION = ("visual", "vision", "multi_modal_projector", "mm_projector")
"""Beginnings of the names in towers for images, which are recorded on their own."""


def main() -> int:
    """Answer every line of standard input."""
    channel = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    questions = [json.loads(line) for line in sys.stdin if line.strip()]
    machine = groups.simulated_machine(questions[0])
    for question in questions:
        try:
            answer = _answer(question, machine)
        except Exception as error:  # noqa: BLE001  (a refusal by vLLM is also an answer)
            answer = {"refused": {"type": type(error).__name__, "message": str(error)}}
        channel.write(json.dumps({**question, **answer}) + "\n")
        channel.flush()
    return 0


def _answer(question: dict[str, Any], machine: Any) -> dict[str, Any]:
    import vllm
    from vllm.model_executor.layers.rotary_embedding import _ROPE_DICT
    from vllm_probe import configuration, models

    config = configuration.build(groups.probe_question(question), machine)
    if config.model_config.architecture.startswith("Transformers"):
        raise TypeError("vLLM has no class of its own for this model")
    _ROPE_DICT.clear()  # every model makes its tables again
    model, _ = models.build(config)
    return {"vllm": vllm.__version__, **_bytes(model)}


def _bytes(model: Any) -> dict[str, int]:
    """Return bytes of parameters and of other tensors; views of the same storage count once."""
    seen, found = set(), {"parameter_bytes": 0, "buffer_bytes": 0, "vision_bytes": 0}
    tensors = [
        *(("parameter_bytes", name, one) for name, one in model.named_parameters()),
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


if __name__ == "__main__":
    sys.exit(main())
