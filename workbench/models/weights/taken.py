"""Of which layers of a tower the output is taken: vLLM builds none after the last of them.

Source: `_get_num_hidden_layers` and `_get_layer_index` of llava.py, 0.23 and 0.33, and the
configuration classes of transformers.
"""

from typing import Any

from workbench.models.weights.parts import Config

TAKE_LAST_BUT_ONE = frozenset({"granite4_vision", "llava", "llava_next", "llava_next_video"})
"""model_types whose class takes the output of the last layer but one where the file names none."""


def taken_layers(config: Config, read: str = "vision_feature_layer") -> Any:
    """Return which layers' outputs a file says are taken, or its class does."""
    top = config.fields.top
    return top.get(read, -2 if top.get("model_type") in TAKE_LAST_BUT_ONE else -1)


def used_layers(config: Config, layers: int, read: str = "vision_feature_layer") -> int:
    """Return the layers up to the last whose output is taken; vLLM builds no others.

    read: the field that says which are.
    """
    taken = taken_layers(config, read)
    places: list[Any] = taken if isinstance(taken, list) else [taken]
    if not places or any(isinstance(one, bool) or not isinstance(one, int) for one in places):
        raise config.fields.wrong(read, taken, "an integer")
    return int(max(layers + one + 1 if one < 0 else one for one in places))
