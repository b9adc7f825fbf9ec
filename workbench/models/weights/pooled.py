"""What a model that pools has instead of a head: a matrix of scores, or nothing.

Source: `_create_pooling_model_cls` and `as_seq_cls_model` of model_executor/models/adapters.py,
`SequenceClassificationConfig`, and the classes of jina.py, jina_vl.py, voyage.py and colqwen3.py,
0.23 and 0.33.
"""

from collections.abc import Callable, Mapping
from typing import Any

from workbench.core.pooling import (
    COLQWEN3_5,
    DEEPSEEK,
    GRIT,
    LATE_INTERACTION,
    OWN,
    SCORES_STEPS,
    STATELESS,
    VOYAGE,
)
from workbench.core.weights import Part
from workbench.models.weights.decoders import TIED
from workbench.models.weights.kinds import by_release
from workbench.models.weights.older import BERTS, MODERN_BERT
from workbench.models.weights.parts import Config, column, row, vocabulary, whole
from workbench.models.weights.rotated_encoders import ROTATED

SCORES = ("ForSequenceClassification", "ForTokenClassification")
EMBEDS = "Model"
OTHERS = ("EmbeddingModel", "RewardModel")
"""Ends of names whose last layer is of another kind."""
SCORE = "score"
TWO_VECTORS = "BgeM3EmbeddingModel"
"""The encoder that makes sparse vectors and those of late interaction, too."""
TWO_WAYS = "from_2_way_softmax"
"""The method that makes one score of two tokens, which Qwen3's own rerankers have."""
LABELS = 2
"""How many labels a configuration class has where the file names none."""


def scores(config: Config) -> tuple[Part, ...] | None:
    """Return the last layer; None where it is not described."""
    pooling = config.model.pooling
    name = "" if pooling is None else pooling.name
    if config.kind in {*BERTS, *ROTATED, MODERN_BERT}:
        return _of_encoder(config, name)
    if name in OWN_ENDS:
        return OWN_ENDS[name](config)
    is_own = name in OWN and not name.endswith(SCORES)
    if pooling is None or name.endswith(OTHERS) or (is_own and not pooling.sees_later):
        return None
    if name.endswith(EMBEDS):
        return ()
    if not name.endswith(SCORES):
        return None
    # 0.23 counts the labels of the text alone, 0.33 those of the whole first
    earlier, later = (
        whole(SCORE, rows, inputs=config.hidden, dtype="float32", is_linear=True)
        for rows in (_labels(config.fields.text), _rows(config))
    )
    return tuple(by_release([earlier], [later]))


def _rows(config: Config) -> int:
    labels = [_labels(part) for part in (config.fields.top, config.fields.text)]
    return next((one for one in labels if one != LABELS), LABELS)


def _of_encoder(config: Config, name: str) -> tuple[Part, ...] | None:
    """Return the layers with biases after BERT's: two for a sequence, one for tokens, or none."""
    of_tokens, two_vectors = name.endswith(SCORES[1]), name == TWO_VECTORS
    if name.endswith((EMBEDS, "ForMaskedLM")) and not two_vectors:
        return ()
    if not (name.endswith(SCORES) or two_vectors):
        return None
    if of_tokens and config.kind == MODERN_BERT:
        return _of_modern_tokens(config)
    sizes = [*([] if of_tokens else [config.hidden]), 1 if two_vectors else _rows(config)]
    return tuple(
        whole(SCORE, size, inputs=inputs, dtype="float32")
        for size in sizes
        for inputs in (config.hidden, 1)
    )


def _of_modern_tokens(config: Config) -> tuple[Part, ...]:
    """Return the layers after ModernBERT's for tokens: a dense one, its norm, and the scores."""
    # ModernBertPredictionHead and ModernBertForTokenClassification, 0.23 and 0.33
    hidden, rows = config.hidden, _rows(config)
    dense = [hidden, *[1] * config.flag("classifier_bias")]
    norm = [1] * (1 + config.flag("norm_bias"))
    return (
        *(whole("head.dense", hidden, inputs=inputs) for inputs in dense),
        *(whole("head.norm", hidden, inputs=one) for one in norm),
        *(whole(SCORE, rows, inputs=inputs, dtype="float32") for inputs in (hidden, 1)),
    )


def _rewards(config: Config, rows: int) -> tuple[Part, ...]:
    """Return the head that gives rewards: two layers with so many outputs; 0: one with one."""
    hidden = config.hidden
    if not rows:
        return (row("v_head", hidden, 1, dtype="float32", is_linear=False),)
    first = column(f"{SCORE}.0", hidden, inputs=hidden, bias=True, dtype="float32")
    return (first, row(f"{SCORE}.2", hidden, rows, bias=True, dtype="float32"))


def _ranking(config: Config) -> tuple[Part, ...]:
    """Return the projector of Jina's reranker of lists (`JinaForRankingConfig`)."""
    hidden = config.hidden
    return (
        whole("projector.0", hidden // 2, inputs=hidden),
        whole("projector.2", 512, inputs=hidden // 2),
    )


def _jamba(config: Config) -> tuple[Part, ...]:
    """Return the scores of Jamba's class, which inherits the head of the vocabulary."""
    bias = config.flag("score_bias")
    return (
        vocabulary("lm_head", config.size("vocab_size"), config.hidden),
        whole(SCORE, _rows(config), inputs=config.hidden, bias=bias, dtype="float32"),
    )


def _grit(config: Config) -> tuple[Part, ...]:
    """Return the head of the vocabulary, which GritLM's class inherits."""
    is_tied = config.flag("tie_word_embeddings")
    return (vocabulary("lm_head", config.size("vocab_size"), config.hidden),) * (not is_tied)


def _voyage(config: Config) -> tuple[Part, ...]:
    return (whole("linear", _labels(config.fields.top), inputs=config.hidden),)


def _late_interaction(config: Config) -> tuple[Part, ...] | None:
    """Return the projection to the vectors of tokens; None where a checkpoint says how wide."""
    top, is_tied = config.fields.top, config.flag("tie_word_embeddings") or config.kind in TIED
    size = next((top[key] for key in WIDTHS if isinstance(top.get(key), int) and top[key]), None)
    if size is None or not is_tied:
        return None
    return (whole("custom_text_proj", size, inputs=config.hidden, dtype="float32"),)


OTHERWISE = (
    *(COLQWEN3_5, DEEPSEEK, STATELESS, "D3ForSequenceClassification"),
    "Qwen3ASRForcedAlignerForTokenClassification",
)
"""Classes whose weights are not described."""
WIDTHS = ("embedding_dim", "embed_dim", "dims", "dim", "projection_dim", "colbert_dim")
OWN_ENDS: Mapping[str, Callable[[Config], tuple[Part, ...] | None]] = {
    "InternLM2ForRewardModel": lambda config: _rewards(config, 0),
    "Qwen2ForRewardModel": lambda config: _rewards(config, 1),
    SCORES_STEPS: lambda config: _rewards(config, 2),
    "JinaEmbeddingsV5Model": lambda _config: (),
    "JambaForSequenceClassification": _jamba,
    "JinaForRanking": _ranking,
    GRIT: _grit,
    VOYAGE: _voyage,
    **dict.fromkeys(LATE_INTERACTION, _late_interaction),
    # of other widths, or over other layers than the class that generates
    **dict.fromkeys(OTHERWISE, lambda _config: None),
}
"""Class of its own -> what it has after the last layer, besides what it ties or never makes."""


def _labels(config: Mapping[str, Any]) -> int:
    tokens = config.get("classifier_from_token")
    if isinstance(tokens, list):
        is_one = config.get("method") == TWO_WAYS or bool(config.get("is_original_qwen3_reranker"))
        return 1 if is_one else len(tokens)
    names, number = config.get("id2label"), config.get("num_labels")
    if isinstance(names, Mapping):
        return len(names)
    return number if isinstance(number, int) else LABELS
