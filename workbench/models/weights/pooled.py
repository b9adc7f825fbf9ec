"""What a model that pools has instead of a head: a matrix of scores, or nothing.

Source: `_create_pooling_model_cls` and `as_seq_cls_model` of model_executor/models/adapters.py, and
`SequenceClassificationConfig`, 0.23 and 0.33.
"""

from collections.abc import Mapping
from typing import Any

from workbench.core.pooling import OWN
from workbench.core.weights import Part
from workbench.models.weights.parts import Collected, Config, whole

SCORES = "ForSequenceClassification"
EMBEDS = "Model"
OTHERS = ("EmbeddingModel", "RewardModel")
"""Ends of names whose last layer is of another kind."""
SCORE = "score"
TWO_WAYS = "from_2_way_softmax"
"""The method that makes one score of two tokens, which Qwen3's own rerankers have."""
LABELS = 2
"""How many labels a configuration class has where the file names none."""


def scores(config: Config, found: Collected) -> tuple[Part, ...] | None:
    """Return the last layer; None where it is not described."""
    pooling = config.model.pooling
    if pooling is None or pooling.name in OWN or pooling.name.endswith(OTHERS):
        return None
    if pooling.name.endswith(EMBEDS):
        return ()
    is_quantized = found.scheme.format_of(SCORE, is_expert=False) is not None
    if is_quantized or not pooling.name.endswith(SCORES):
        return None
    labels = [_labels(part) for part in (config.fields.top, config.fields.text)]
    rows = next((one for one in labels if one != LABELS), LABELS)
    return (whole(SCORE, rows, inputs=config.hidden)._replace(dtype="float32"),)


def _labels(config: Mapping[str, Any]) -> int:
    tokens = config.get("classifier_from_token")
    if isinstance(tokens, list):
        is_one = config.get("method") == TWO_WAYS or bool(config.get("is_original_qwen3_reranker"))
        return 1 if is_one else len(tokens)
    names, number = config.get("id2label"), config.get("num_labels")
    if isinstance(names, Mapping):
        return len(names)
    return number if isinstance(number, int) else LABELS
