"""What refuses pipeline parallelism: classes that are not cut, and drafters.

Source: `verify_with_parallel_config` of 0.23 and 0.33, `eagle3_utils.py` of 0.33's second runner.
"""

from typing import Any

from workbench.core.architectures import ANY_LANGUAGE_MODEL
from workbench.core.groups.layer_specs import layer_specs
from workbench.core.groups.pipeline import ALL, cuts_of
from workbench.core.model import SSM
from workbench.core.runner import model_runner
from workbench.core.speculation import DRAFT_MODEL, HIDDEN_STATES, MTP, NGRAM
from workbench.core.weights import EMBEDDING
from workbench.core.working_plan import WorkingPlan

NOT_CUT = (
    "Pipeline parallelism is not supported for this model. Supported models implement the "
    "`SupportsPP` interface."
)
ONE_STAGE: dict[str, Any] = {"pipeline_parallel": 1}
NAMED_APART = frozenset(
    {
        *("DomynEdgeForCausalLM", "GPTBigCodeForCausalLM", "GPTNeoXForCausalLM"),
        *("GptOssForCausalLM", "InklingForCausalLM", "JambaForCausalLM", "NemotronHForCausalLM"),
        *("NemotronHPuzzleForCausalLM", "OPTForCausalLM", "Plamo2ForCausalLM"),
        *("Plamo3ForCausalLM", "SarvamMoEForCausalLM", "Zamba2ForCausalLM"),
    }
)
"""Classes whose attention is not called model.layers.N.self_attn.attn, as that of heads is; nor is
it in those whose embedding has a name that heads do not look for."""


def pipeline_parallel(run: WorkingPlan) -> None:
    """Refuse stages of a model class that cannot be cut. Errors: Refused."""
    stages, text = run.settings.pipeline_parallel, NOT_CUT
    if stages == 1:
        return
    pooling = run.model.pooling
    names = {run.model.architecture, *([] if pooling is None else [pooling.name])}
    if names.isdisjoint(run.rules.model_registry.without_stages):
        # of Qwen4-Exp's layers with embeddings of their own (Qwen4ExpConfig of config.py, 0.33)
        text = "Qwen4Exp N-gram PLE embedding requires pipeline_parallel_size=1"
        if run.model.family != "qwen4_exp" or not any(one.state for one in run.model.layers):
            return
    raise run.refusal(
        "stages_not_supported",
        variant="pipeline_parallel",
        operands={"pipeline_parallel": stages, "architecture": run.model.architecture},
        candidates=[ONE_STAGE],
        vllm_text=text,
    )


def tied_vocabulary(run: WorkingPlan) -> None:
    """Refuse stages of classes that tie the vocabularies where a stage has only one of them."""
    # Ernie4_5_MoeForCausalLM.__init__: the first stage has no head, the last one no embedding.
    stages, lacks = run.settings.pipeline_parallel, run.rules.tied_on_every_stage
    name = run.model.layer_class
    if stages == 1 or name not in lacks or not run.model.weights.is_tied:
        return
    run.problem(
        "vocabulary_tied_over_stages",
        operands={"pipeline_parallel": stages, "architecture": name},
        candidates=(ONE_STAGE,),
        lacking=lacks[name],
    )


def stage_experts(run: WorkingPlan) -> None:
    """Refuse a stage without routed experts of classes that look for them among its layers."""
    # __init__ and set_moe_parameters of these classes, which serve balanced experts
    wants, name = run.rules.wants_experts, run.model.layer_class
    if name not in wants:
        return
    weights, stages = run.model.weights, run.settings.pipeline_parallel
    if weights.unknown or not weights.places:
        return
    for at, part in enumerate(cuts_of(run)):
        held = weights.counts(part, 0)
        if not any(count and one.experts > 1 for one, count in held):
            run.problem(
                "stage_without_experts",
                operands={"pipeline_parallel": stages, "layers": [part.start, part.stop - 1]},
                candidates=[{"pipeline_layers": None}, {**ONE_STAGE, "pipeline_layers": None}]
                * (stages > 1),
                vllm_text=wants[name],
                number=at + 1,
                architecture=name,
            )
            return


def part_not_cut(run: WorkingPlan) -> None:
    """Refuse stages of wrappers that have a part which is not cut. Errors: Refused."""
    # VllmConfig.with_hf_config, 0.23: the copy is verified again with the configuration of the
    # part, whose type transformers has no causal language model for, or one that is not cut.
    stages, name = run.settings.pipeline_parallel, run.model.architecture
    if stages == 1 or name not in run.rules.parts_not_cut:
        return
    raise run.refusal(
        "stages_not_supported",
        variant=run.rules.parts_not_cut[name],
        operands={"pipeline_parallel": stages, "architecture": name},
        candidates=[ONE_STAGE],
    )


def plan_of_transformers(run: WorkingPlan) -> None:
    """Refuse ranks and stages of a class of Transformers without a plan. Errors: Refused."""
    # pipeline_parallel and recursive_replace of transformers/base.py, in this order
    name, settings = run.model.architecture, run.settings
    counts = {one: getattr(settings, one) for one in ("pipeline_parallel", "tensor_parallel")}
    cut = next((one for one, count in counts.items() if count > 1), None)
    if cut is None or name not in run.rules.model_registry.without_plans:
        return
    raise run.refusal(
        "split_not_supported",
        operands={cut: counts[cut], "architecture": name},
        candidates=[dict.fromkeys((one for one, n in counts.items() if n > 1), 1)],
        field=cut,
        cut=cut,
        count=counts[cut],
        what=cut.replace("_", " "),
    )


def stage_layers(run: WorkingPlan) -> None:
    """Check that the layers given for each stage are those of the model, and of its draft model."""
    # get_pp_indices, which every model asks that is cut
    stages, given = run.settings.pipeline_parallel, run.settings.pipeline_layers
    if given is None:
        return
    total, layers = sum(given), run.model.num_hidden_layers
    drafter = run.model.drafter if run.speculative_method == DRAFT_MODEL else None
    if len(given) != stages:
        variant, text = "count", f"len(partitions)={len(given)} does not match pp_size={stages}."
    elif total != layers or (drafter is not None and drafter.num_hidden_layers != total):
        layers = layers if total != layers or drafter is None else drafter.num_hidden_layers
        variant = "layers" if total != run.model.num_hidden_layers else "draft_model"
        text = f"sum(partitions)={total} does not match num_hidden_layers={layers}."
    else:
        return
    last = run.model.num_hidden_layers - sum(given[:-1])
    run.problem(
        "stage_layers_mismatch",
        variant=variant,
        operands={"pipeline_layers": [*given], "pipeline_parallel": stages, "layers": layers},
        candidates=(
            *([{"pipeline_parallel": len(given)}] if variant == "count" else []),
            *(
                [{"pipeline_layers": (*given[:-1], last)}]
                if variant == "layers" and last > 0
                else []
            ),
            {"pipeline_layers": None},
        ),
        vllm_text=text,
        total=total,
        count=len(given),
    )


def shared_caches(run: WorkingPlan) -> None:
    """Check that layers that read the cache of an earlier one are on its stage."""
    attention, stages = run.model.attention, run.settings.pipeline_parallel
    if stages == 1 or attention is None or not attention.shares_caches:
        return
    last = {layer.kind: layer.number for layer in run.model.layers}
    first_shared, first_read = max(last.values()) + 1, min(last.values())
    apart = [part for part in cuts_of(run) if part.stop > first_shared and part.start > first_read]
    if not apart:
        return
    run.problem(
        "cache_shared_over_stages",
        operands={"pipeline_parallel": stages, "first_layer": apart[0].start},
        candidates=(ONE_STAGE,),
        first_shared=first_shared,
        first_read=first_read,
        last_owner=first_shared - 1,
    )


def drafts_over_stages(run: WorkingPlan) -> None:
    """Check that the drafter works with stages. Errors: Refused."""
    method, stages = run.speculative_method, run.settings.pipeline_parallel
    if stages == 1 or method is None:
        return
    rules = run.rules.speculation
    operands = {"pipeline_parallel": stages, "speculative_method": method}
    mtp = (run.model.drafter or run.model).mtp
    reads = method == MTP and mtp is not None and mtp.reads_target  # Gemma4Speculator, 0.33
    whole = not (rules.cuts_drafters or reads) and method != HIDDEN_STATES
    own_ranks = run.settings.draft_tensor_parallel or run.settings.tensor_parallel
    if method in {MTP, HIDDEN_STATES} and run.model.total_num_attention_heads % own_ranks:
        return  # the drafter has the target's heads, and they are counted before its stages
    if not whole and not _can_be_cut(run, method):
        raise run.refusal("drafter_over_stages", operands=operands, vllm_text=NOT_CUT)
    is_given_states = method in rules.hidden_state_readers and model_runner(run) == "v2"
    if is_given_states and not _hands_on(run):
        run.problem("drafter_over_stages", operands=operands, variant="without_states")
    if method in rules.numbers_from_stage and _has_number_twice(run):
        run.problem("drafter_over_stages", operands=operands, variant="number_twice")
    if method == DRAFT_MODEL:
        _draft_model(run)


def _can_be_cut(run: WorkingPlan, method: str) -> bool:
    rules, draft = run.rules.speculation, run.model.drafter
    if method == MTP:
        mtp = (draft or run.model).mtp
        return mtp is not None and mtp.model_type in rules.mtp_with_stages
    if method == DRAFT_MODEL and draft is not None:
        return draft.architecture not in run.rules.model_registry.without_stages
    return method != HIDDEN_STATES and not rules.methods[method].reads_model


def shared_name(run: WorkingPlan) -> None:
    """Refuse a head whose layer has the name of another stage's layer, and not its cache."""
    # get_global_kv_cache_groups, 0.33
    rules, stages, found = run.rules.speculation, run.settings.pipeline_parallel, run.drafter
    own, method = run.model.attention, run.speculative_method
    if stages == 1 or method not in rules.numbers_from_stage or found is None or own is None:
        return
    last, specs = _last_stage(run), layer_specs(run).by_name()
    if _has_other_names(run) or found.attention.use_mla != own.use_mla:
        return
    for at, layer in enumerate(found.layers):
        pair = [specs.get(f"model.layers.{one}.attn") for one in (len(last) + at, layer.number)]
        if len(last) + at not in last and None not in pair and pair[0] != pair[1]:
            run.problem(
                "drafter_over_stages",
                operands={"pipeline_parallel": stages, "speculative_method": method},
                variant="shared_name",
            )
            return


def _last_stage(run: WorkingPlan) -> range:
    return cuts_of(run)[-1]


def _has_other_names(run: WorkingPlan) -> bool:
    """Return whether no layer has the name of a head's, inside another model or by its class."""
    model, registry = run.model, run.rules.model_registry
    inside = model.layer_class != model.architecture or model.weights.has_tower
    apart = NAMED_APART | registry.embedding_named_apart | registry.wrappers.keys()
    return inside or model.architecture in apart


def lacks_embedding(run: WorkingPlan) -> bool:
    """Return whether the last of several stages, which drafts, is without the embedding."""
    weights = run.model.weights
    if run.settings.pipeline_parallel == 1 or weights.unknown:
        return False
    held = weights.counts(range(_last_stage(run).start, ALL), 1)
    return not any(count for part, count in held if part.name == EMBEDDING)


def _has_number_twice(run: WorkingPlan) -> bool:
    """Return whether a layer of a head has the name of a layer of the last stage."""
    last, drafted = _last_stage(run), len(run.drafter.layers) if run.drafter else 1
    with_attention = {one.number for one in run.model.layers if one.kind != SSM}.intersection(last)
    numbers = range(len(last), len(last) + drafted)
    return not _has_other_names(run) and not with_attention.isdisjoint(numbers)


def _hands_on(run: WorkingPlan) -> bool:
    """Return whether the model, or what a wrapper builds, hands states on to the last stage."""
    registry = run.rules.model_registry
    wrapper = registry.wrappers.get(run.model.architecture)
    model = run.model
    names = {model.architecture, model.layer_class, *(wrapper.language_models if wrapper else ())}
    return bool(names & {*registry.hands_on_states, ANY_LANGUAGE_MODEL})


def _draft_model(run: WorkingPlan) -> None:
    """Report that a model of its own waits for stages before the last one."""
    stages, built = run.settings.pipeline_parallel, run.drafter.layers if run.drafter else ()
    run.problem(
        "draft_model_over_stages",
        operands={"pipeline_parallel": stages, "layers": len(built)},
        candidates=(ONE_STAGE, {"speculative_method": NGRAM, "draft_model": None}),
    )
