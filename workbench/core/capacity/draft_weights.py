"""The weights of what drafts: the second checkpoint, or the MTP layers of the first."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from workbench.core.media import keeps_towers
from workbench.core.platforms import HOPPER, is_sm10x
from workbench.core.ranks import Split, split_of
from workbench.core.speculation import DRAFT_MODEL, MTP, OF_HIDDEN_STATES, class_of_head
from workbench.core.weights import (
    CHUNKED,
    DRAFTED,
    DSPARK_PART,
    EARLIER,
    EMBEDDING,
    EXACT,
    FOR_HEADS,
    LENGTH,
    MTP_PART,
    NARROW,
    PER_DRAFT,
    ROUNDED,
    STEP,
    STREAMS,
    TABLE,
    TOWERS,
    WIDE,
    Part,
    Weights,
)

if TYPE_CHECKING:
    from workbench.core.model import Model
    from workbench.core.plan import Plan

SHARE_OF_CHECKPOINT = 0.1
"""Of a checkpoint, what a rank's share may be off by: vLLM may keep parts whole, or omit some.
"""
NOT_GIVEN = "no draft model is given"


class DraftBytes(NamedTuple):
    """What the drafter adds to the weights of one rank."""

    size: int = 0
    uncertain: int = 0
    """Of the vocabularies: taken as shared, which only the checkpoint's tensors show."""


def draft_weights(plan: Plan) -> Weights | None:
    """Return the parameters of the drafter; None where nothing that has any drafts."""
    name, model, rules = plan.speculative_method, plan.model, plan.rules.speculation
    if name is None or not plan.settings.num_speculative_tokens:
        return None
    method, draft = rules.methods[name], model.drafter
    if name == MTP:
        return (draft or model).unread_weights.of(MTP_PART)
    if not method.needs_model:
        return None
    if draft is None:
        own = model.unread_weights.of(DSPARK_PART) if model.dspark else None
        return own or Weights(unknown=NOT_GIVEN)
    if name == DRAFT_MODEL and draft.architecture not in rules.heads:
        return draft.weights
    return draft.unread_weights.of(class_of_head(draft, method, rules))


def copies_of(plan: Plan) -> dict[str, int]:
    """Return how many there are of kinds of parts, such as rows of a table."""
    found = {LENGTH: plan.max_model_len, STEP: plan.max_num_batched_tokens}
    if _is_embedding_near(plan):
        found[FOR_HEADS] = 1
    if not keeps_towers(plan):
        found[TOWERS] = 0
    if drafts := plan.settings.num_speculative_tokens:
        # `_decode_state_offsets` of MambaMixer2, 0.23
        found[DRAFTED] = plan.rules.weight_copies.get(EARLIER, 1) * (1 + drafts)
    # `use_eagle() or uses_draft_model()` in DeepseekV4Model, 0.33
    is_read = plan.speculative_method in {*OF_HIDDEN_STATES, DRAFT_MODEL}
    if is_read or plan.rules.weight_copies.get(STREAMS, 1):
        found[STREAMS] = plan.max_num_batched_tokens
    if not has_several_chunks(plan.model, plan.settings.tensor_parallel):
        found[CHUNKED] = 0
    if not _has_router_kernels(plan):
        found |= {NARROW: 0, WIDE: 1}
    if plan.platform.name != "cuda":
        found |= {EXACT: 0, ROUNDED: 1}
    return {**plan.rules.weight_copies, **found}


def has_several_chunks(model: Model, ranks: int) -> bool:
    """Return whether a rank has several of the chunks, one per KV head, of fused projections."""
    # _fused_qkv_kv_chunk_rows of MiMo-V2, 0.33
    heads = 0 if model.attention is None else model.attention.num_kv_heads
    return heads > ranks and heads % ranks == 0


def _has_router_kernels(plan: Plan) -> bool:
    """Return whether the device has kernels for routers (`GateLinear.__init__`, 0.23 and 0.33)."""
    has_them = plan.capability == HOPPER or is_sm10x(plan)
    return plan.platform.name == "cuda" and has_them and not plan.settings.batch_invariant


def _is_embedding_near(plan: Plan) -> bool:
    """Return whether the last of several stages may have the target's embedding for the heads."""
    near = plan.rules.speculation.embeds_on_last_stage
    return plan.settings.pipeline_parallel > 1 and plan.speculative_method in near


def draft_bytes(plan: Plan) -> DraftBytes | None:
    """Return the bytes of the drafter on one rank; None where they are not known.

    A vocabulary like the target's is shared, as `load_eagle_model` and `_maybe_share_embeddings` do
    where the checkpoint has none of its own, or an equal one. Over pipeline stages the drafter has
    its own embedding, unless its stage has the target's. Equal tables of positions are one.
    """
    weights = draft_weights(plan)
    if weights is None:
        return DraftBytes()
    split = split_of_drafter(plan)
    dtype = plan.model_dtype
    copies = {**copies_of(plan), PER_DRAFT: plan.settings.num_speculative_tokens}
    whole = weights.size(split, dtype, copies)
    if weights.unknown or whole is None:
        return None if whole is None else DraftBytes(whole, int(SHARE_OF_CHECKPOINT * whole))
    target = {part for part, _ in plan.model.weights.parts}
    embeddings = [part for part in target if part.name == EMBEDDING and part.kind != FOR_HEADS]
    rows = {(part.outputs, part.inputs) for part in embeddings}
    if plan.speculative_method == DRAFT_MODEL:
        rows = set()  # nothing of a model of its own is shared
    parts = [(_stretched(plan, part), count) for part, count in weights.parts]
    own = [(part, count) for part, count in parts if TABLE not in part.name or part not in target]
    own += [(part, 1) for part in weights.shared if (part.outputs, part.inputs) not in rows]
    shared = weights.shared if weights.has_vocabulary else ()
    like = [part for part in shared if (part.outputs, part.inputs) in rows]
    if plan.settings.pipeline_parallel > 1 and not _is_embedding_near(plan):
        drafts = embeddings if plan.speculative_method == MTP else like
        own += [(part, 1) for part in drafts if part.name == EMBEDDING]
        like = [part for part in like if part.name != EMBEDDING]
    known = Weights(tuple(own)).size(split, dtype, copies) or 0
    return DraftBytes(known, sum(part.size(split, dtype) for part in like))


def split_of_drafter(plan: Plan) -> Split:
    """Return among how many ranks the drafter is divided, which may be other ones."""
    settings = plan.settings
    ranks = settings.draft_tensor_parallel or settings.tensor_parallel
    return split_of(plan, plan.model.drafter, tensor_parallel=ranks)


def _stretched(plan: Plan, part: Part) -> Part:
    """Return a table of positions as long as the target's requests, from 0.33 on."""
    # SpeculativeConfig._maybe_override_draft_max_position_embeddings
    reaches = plan.rules.speculation.reaches_positions and plan.speculative_method != DRAFT_MODEL
    head = plan.model.draft_head
    if not reaches or (head is not None and not head.stretches) or not part.name.startswith(TABLE):
        return part
    [(longest, size)] = part.outputs
    return part._replace(outputs=((max(longest, plan.max_model_len), size),))
