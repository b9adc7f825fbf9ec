"""What vLLM says against a second checkpoint: its class, its vocabulary, its ranks."""

from __future__ import annotations

from typing import Any

from workbench.core import speculation
from workbench.core.errors import Refused, cut
from workbench.core.model import SLIDING, Model
from workbench.core.problems import ERROR, WARNING
from workbench.core.runner import model_runner
from workbench.core.stages.mtp_checks import WITHOUT, check_mtp
from workbench.core.stages.pipeline_checks import lacks_embedding
from workbench.core.stages.refusals import heads_text
from workbench.core.working_plan import WorkingPlan

COUNTS_ON = "EagleLlamaForCausalLM"
"""The head that looks for its layers in its own list by numbers that go on after the target's."""
RANKED = "Qwen3DSparkModel"
"""The head that reads `markov_rank` at the top of its file."""
ADDS_SLOTS = frozenset({speculation.DRAFT_MODEL, "dflash"})
"""Methods whose drafter reads more tokens than the target gives it."""
NO_STATES = "It then stops in its first step, whose arguments lack them."
OTHER_DRAFTS = "It then drafts without what it was trained with."
"""What comes of an EAGLE head, and of another, that drafts as a model of its own."""
HEADS = speculation.OF_SEVERAL_LAYERS - {speculation.HIDDEN_STATES} | {"eagle"}
"""Methods whose drafter may have the embedding of its target."""


def check_drafter(run: WorkingPlan, method: str) -> None:
    """Check that the method finds the layers that it drafts with. Errors: Refused."""
    draft, record = run.model.drafter, run.rules.speculation.methods[method]
    if method == speculation.MTP:
        check_mtp(run, draft or run.model)
    elif draft is None and record.needs_model and not (record.unknown_layers or run.drafter):
        _without_model(run, method)
    elif draft is not None and not record.reads_model:
        _not_read(run, method, draft)
    elif draft is not None and (record.class_name is not None or not record.has_class):
        _check_head(run, method, draft)
    if draft is not None and record.layers is not None:
        _check_ranks(run, draft)
        _check_fields(run, method, draft)
        _check_window(run, method, draft)
        _check_latents(run)
        _check_rotation(run, method, draft)
    if draft is not None and method == speculation.DRAFT_MODEL:
        _check_decoder(run, draft)


def check_hidden_states(run: WorkingPlan, method: str) -> None:
    """Check that the target's class gives the hidden states that the drafter reads."""
    # set_eagle3_aux_hidden_state_layers, and _setup_eagle3_aux_hidden_state_outputs of the V1
    # runner, 0.23 and 0.33.
    registry, name = run.rules.model_registry, run.model.architecture
    own = run.rules.speculation.without_hidden_states.get(run.platform.name, frozenset())
    gives_none = name in registry.served and name not in registry.gives_hidden_states - own
    if not gives_none or not _reads_hidden_states(run, method):
        return
    run.problem(
        "target_gives_no_hidden_states",
        operands={"speculative_method": method, "architecture": name},
        candidates=(WITHOUT | {"hidden_state_layers": 0},),
        ngram=speculation.NGRAM,
    )


def check_embedding(run: WorkingPlan, method: str) -> None:
    """Check that a head that takes the target's embedding finds it."""
    # SpecDecodeBaseProposer._maybe_share_embeddings, 0.23; maybe_share_target_embed, 0.33.
    name, rules = run.model.architecture, run.rules.speculation
    always, built = rules.compares_embeddings, {name, run.model.layer_class}
    is_apart = not built.isdisjoint(run.rules.model_registry.embedding_named_apart)
    if method not in HEADS or not (is_apart or (lacks_embedding(run) and not always)):
        return
    why = "compares it with the head's" if always else "gives it to a head that has none of its own"
    where = "under a name that it does not look for" if is_apart else "on the first stage alone"
    run.problem(
        "target_embedding_not_found",
        operands={"speculative_method": method, "architecture": name},
        candidates=(WITHOUT,),
        severity=ERROR if always else WARNING,
        vllm_text="Target model does not have '" if always else "needs the target input embedding",
        why=why,
        where=where,
        who="it" if always else "then it",
        ngram=speculation.NGRAM,
    )


def _reads_hidden_states(run: WorkingPlan, method: str) -> bool:
    head, rules = run.model.draft_head, run.rules.speculation
    if method != "eagle3" or head is None or head.reads_hidden_states:
        return method in speculation.OF_SEVERAL_LAYERS
    return rules.asks_every_eagle3 and model_runner(run) == "v2"


def _without_model(run: WorkingPlan, method: str) -> None:
    """Record that vLLM stops: the layers of the drafter are not known, and are not counted."""
    run.problem(
        "draft_model_missing",
        operands={"speculative_method": method},
        candidates=(WITHOUT,),
        vllm_text=run.rules.speculation.methods[method].without_model,
    )


def _not_read(run: WorkingPlan, method: str, draft: Model) -> None:
    run.problem(
        "draft_model_not_read", operands={"speculative_method": method, "draft_model": draft.name}
    )


def _check_head(run: WorkingPlan, method: str, draft: Model) -> None:
    rules = run.rules.speculation
    name = speculation.class_of_head(draft, rules.methods[method], rules)
    fits = {draft.model_type, run.model.model_type} <= rules.heads_for.get(name, frozenset())
    if (name in rules.heads or fits) and draft.attention is not None:
        return
    raise _class_unknown(run, method, draft, name)


def _class_unknown(run: WorkingPlan, method: str, draft: Model, name: str) -> Refused:
    rules = run.rules.speculation
    return run.refusal(
        "drafter_class_unknown",
        operands={"class": name, "speculative_method": method},
        candidates=[*_other_methods(run, draft), WITHOUT],
        given=cut(name) or "without a name",
        draft=draft,
        known=", ".join(sorted(rules.heads | rules.heads_for.keys())),
    )


def _other_methods(run: WorkingPlan, draft: Model) -> list[dict[str, Any]]:
    """Return the changes to methods of heads that this drafter fits."""
    rules = run.rules.speculation
    return [
        {"speculative_method": name}
        for name, one in rules.methods.items()
        if one.class_name is not None
        and speculation.class_of_head(draft, one, rules) in rules.heads
    ]


def _check_fields(run: WorkingPlan, method: str, draft: Model) -> None:
    """Check that the file has what the drafter's class reads without a default."""
    # get_parallel_drafting_token_id and Qwen3DSparkModel of 0.33; _init_parallel_drafting_params
    # of 0.23
    rules, head = run.rules.speculation, draft.head
    if head is None or head.method is not None:
        return
    record = rules.methods[method]
    wanted = {record.mask_tokens: record.without_mask}
    if speculation.class_of_head(draft, record, rules) == RANKED:
        wanted[speculation.RANK,] = f"object has no attribute '{speculation.RANK}'"
    for names, text in wanted.items():
        if not names or head.given.intersection(names):
            continue
        run.problem(
            "drafter_field_missing",
            operands={"speculative_method": method},
            candidates=(WITHOUT,),
            vllm_text=text,
            draft=draft,
            names=" or ".join(name for name in names if name != speculation.NULL_MASK),
        )


def _check_window(run: WorkingPlan, method: str, draft: Model) -> None:
    # _resolve_layer_attention, models/qwen3_dflash.py of 0.33
    rules, head = run.rules.speculation, draft.head
    name = speculation.class_of_head(draft, rules.methods[method], rules)
    if head is None or head.window_tokens is not None or name not in rules.asks_for_window:
        return
    if SLIDING in head.kinds:
        operands = {"speculative_method": method, "architecture": name}
        run.problem("draft_window_missing", operands=operands, draft=draft)


def _check_latents(run: WorkingPlan) -> None:
    # Attention.get_kv_cache_spec: 0.33 asks the layer's backend, 0.23 the target
    own, found = run.model.attention, run.drafter
    if own is None or found is None or not own.use_mla:
        return
    slides = any(layer.kind == SLIDING for layer in found.layers)
    # The window of a file without kinds of layers is the cache's, and so every plain layer's.
    inherits = own.is_compressed and not found.attention.use_mla
    if run.rules.speculation.latents_bar_windows and (slides or inherits):
        operands = {"window_tokens": (found.attention if slides else own).window_tokens}
        advice = " List full attention in layer_types of the drafter." if slides else ""
        run.problem("draft_window_with_latents", operands=operands, advice=advice)


def _check_rotation(run: WorkingPlan, method: str, draft: Model) -> None:
    # SpecDecodeBaseProposer._raise_if_mrope, 0.23 and 0.33
    attention = draft.attention
    is_rotated = attention is not None and attention.rope_sections is not None
    if is_rotated and method in ADDS_SLOTS and model_runner(run) == "v1":
        run.problem(
            "draft_with_sections",
            operands={"speculative_method": method},
            candidates=(WITHOUT,),
            draft=draft,
        )


def _check_decoder(run: WorkingPlan, draft: Model) -> None:
    name, method = draft.architecture, speculation.DRAFT_MODEL
    registry, rules = run.rules.model_registry, run.rules.speculation
    if not registry.has(name) and name not in rules.heads:
        raise _class_unknown(run, method, draft, name)
    ours, theirs = run.model.vocab_size, draft.vocab_size
    if ours is not None and theirs is not None and ours != theirs:
        raise run.refusal(
            "draft_vocabulary_differs",
            operands={"vocab_size": ours, "draft_vocab_size": theirs},
            candidates=[WITHOUT],
            draft=draft,
        )
    if name in registry.encoders or draft.attention is None:
        why = "it has no attention, and layers of states alone are not modelled in a drafter"
        if name in registry.encoders:
            why = f"{cut(name)} is not a model class that generates"
        raise run.refusal(
            "draft_model_not_a_decoder",
            operands={"architecture": name},
            candidates=[WITHOUT],
            draft=draft,
            why=why,
        )
    if name in rules.heads:
        run.problem(
            "head_drafts_alone",
            operands={"speculative_method": method, "architecture": name},
            candidates=(*_other_methods(run, draft), WITHOUT),
            draft=draft,
            then=NO_STATES if speculation.is_eagle(name) else OTHER_DRAFTS,
        )


def check_listed_kinds(run: WorkingPlan) -> None:
    """Check that a head finds the kinds of its layers in the list of its file."""
    # LlamaAttention.__init__, 0.23 and 0.33: only EAGLE-3 subtracts the layers of the target
    head, draft, method = run.model.draft_head, run.model.drafter, run.speculation
    first = run.model.num_hidden_layers
    if draft is None or head is None or method is None or not head.lists_kinds:
        return
    name = speculation.class_of_head(draft, method, run.rules.speculation)
    if name != COUNTS_ON or first < len(head.kinds):
        return
    run.problem(
        "head_layer_not_listed",
        operands={"first_layer": first, "listed": len(head.kinds)},
        candidates=(WITHOUT,),
    )


def check_ranks_of_runner(run: WorkingPlan) -> None:
    """Check that a draft model of the V1 runner has the ranks of its target. Errors: Refused."""
    # Raised by DraftModelProposer when it is built, after the target
    given, ranks = run.settings.draft_tensor_parallel, run.settings.tensor_parallel
    is_model = run.speculative_method == speculation.DRAFT_MODEL and model_runner(run) == "v1"
    if is_model and given not in {None, ranks}:
        raise _ranks(run, "Currently, 'draft_tensor_parallel_size' and 'tensor_parallel_size'")


def _check_ranks(run: WorkingPlan, draft: Model) -> None:
    """Check the ranks of the drafter: those of the target, or one where that is allowed."""
    ranks, given = run.settings.tensor_parallel, run.settings.draft_tensor_parallel
    if given is not None and given not in {1, ranks}:
        text = f"speculative_draft_tensor_parallel_size={given} cannot be other value"
        raise _ranks(run, text)
    heads = draft.total_num_attention_heads
    if heads % (given or ranks):
        raise run.refusal(
            "draft_heads_not_divisible",
            operands={"num_heads": heads, "tensor_parallel": given or ranks},
            candidates=[WITHOUT],
            vllm_text=heads_text(heads, given or ranks),
            draft=draft,
        )


def _ranks(run: WorkingPlan, text: str) -> Refused:
    names = ("draft_tensor_parallel", "tensor_parallel")
    operands = {name: getattr(run.settings, name) for name in names}
    return run.refusal("draft_ranks_differ", operands=operands, vllm_text=text)
