"""The panel follows its controls: every one of them, good values and bad."""

from __future__ import annotations

import pytest

import workbench as wb
from tests.catalog import distinct_models
from tests.ui.panels import (
    buttons,
    figure,
    headline,
    input_error,
    is_stale,
    is_verdict_stale,
    options,
    text,
)
from tests.views.plans import EVIL, evil_config
from workbench.core.errors import ScenarioError
from workbench.exchange import commands_of
from workbench.scenario import FIELDS, Scenario
from workbench.scenario.field import ENGINE
from workbench.views.pages.figure import page

CHANGES = {
    "model": "jamba-1.5-mini",
    "platform": "xpu",
    "device": "B200",
    "entry_point": "LLM",
    "compute_capability": "10.0",
    "backend": "FLASHINFER",
    "tensor_parallel": 4,
    "dtype": "float16",
    "kv_cache_dtype": "fp8",
    "mamba_cache_dtype": "float32",
    "mamba_ssm_cache_dtype": "bfloat16",
    "enable_prefix_caching": True,
    "mamba_cache_mode": "align",
    "block_size": "32",
    "mamba_block_size": "1,024",
    "max_model_len": "4096",
    "max_num_batched_tokens": "8192",
    "num_speculative_tokens": 2,
    "speculative_method": "ngram",
    "draft_model": "qwen3-8b",
    "draft_tensor_parallel": "1",
    "draft_attention_backend": "TRITON_ATTN",
    "kv_cache_memory_bytes": "20 GiB",
    "num_gpu_blocks_override": "100",
    "max_num_seqs": "512",
    "device_memory_bytes": "80 GiB",
    "gpu_memory_utilization": "0.9",
    "weights_bytes": "60 GB",
    "activation_bytes": "4 GiB",
    "cuda_graph_bytes": "1 GiB",
    "flex_attn_block_m": "16",
    "flex_attn_block_n": "32",
    "flex_attn_q_block_size": "64",
    "flex_attn_kv_block_size": "-8",
    "batch_invariant": True,
    "gdn_flashinfer_prefill": True,
    "kv_cache_dtype_skip_layers": "0, 5",
    "trtllm_kernels": True,
    "kv_cache_memory_bytes_by_rank": "20 GiB, 18 GiB",
    "disable_hybrid_kv_cache_manager": True,
    "kv_cache_layout": "HND",
    "hidden_state_layers": 3,
    "torch_version": "2.8",
    "rules": "before-37467",
}
MEANS = {
    "draft_tensor_parallel": 1,
    "kv_cache_dtype_skip_layers": ("0", "5"),
    "block_size": 32,
    "mamba_block_size": 1024,
    "max_model_len": 4096,
    "max_num_batched_tokens": 8192,
    "kv_cache_memory_bytes": 20 * 2**30,
    "kv_cache_memory_bytes_by_rank": (20 * 2**30, 18 * 2**30),
    "num_gpu_blocks_override": 100,
    "max_num_seqs": 512,
    "device_memory_bytes": 80 * 2**30,
    "gpu_memory_utilization": 0.9,
    "weights_bytes": 60 * 10**9,
    "activation_bytes": 4 * 2**30,
    "cuda_graph_bytes": 2**30,
    "flex_attn_block_m": 16,
    "flex_attn_block_n": 32,
    "flex_attn_q_block_size": 64,
    "flex_attn_kv_block_size": -8,
}
START = {
    "backend": {"compute_capability": "9.0"},
    "mamba_block_size": {"enable_prefix_caching": True},
}


def assert_shows_its_plan(panel):
    """Expect headline, figure and tabs to be those of the plan of the newest scenario."""
    plan = wb.resolve(panel.scenario)
    assert panel.plan == plan
    assert panel.error is None
    assert f'data-value="{plan.block_size}"' in headline(panel)
    assert not is_stale(panel)
    assert_same_drawing(figure(panel), page(plan))
    taken = panel.open("Copy")
    assert taken.code.text == plan.to_code()
    assert taken.flags.text == plan.to_vllm_command()
    assert taken.python.text == commands_of(plan)["vLLM in Python"]
    for picker in panel._pickers:
        shown = picker.read(picker.widget.value)
        in_list = picker.field == "model" and shown is None
        assert in_list or shown == getattr(panel.scenario, picker.field), picker.field


def assert_same_drawing(live, fresh):
    def plain(trace):
        return {key: value for key, value in trace.to_plotly_json().items() if key != "uid"}

    def without_nothing(value):
        if isinstance(value, dict):
            items = {key: without_nothing(item) for key, item in value.items()}
            return {key: item for key, item in items.items() if item not in (None, {})}
        return list(value) if isinstance(value, tuple) else value

    for trace, new in zip(live.data, fresh.data, strict=True):
        assert without_nothing(plain(trace)) == without_nothing(plain(new))
    assert live.layout.title.text == fresh.layout.title.text
    for axis in ("xaxis", "xaxis2", "yaxis"):
        assert live.layout[axis].range == fresh.layout[axis].range
        assert live.layout[axis].title.text == fresh.layout[axis].title.text
        assert live.layout[axis].visible == fresh.layout[axis].visible


def test_every_field_has_a_control(panel):
    assert set(panel.controls) == set(FIELDS)


def test_every_control_has_a_change_here(panel):
    assert set(CHANGES) == set(panel.controls)


def test_it_starts_with_the_scenario_that_it_is_given():
    scenario = Scenario(model="bamba-9b", tensor_parallel=2)
    panel = wb.explore(scenario)
    assert panel.scenario == scenario
    assert_shows_its_plan(panel)
    assert wb.explore(scenario, tensor_parallel=4).scenario.tensor_parallel == 4


@pytest.mark.parametrize("field", CHANGES)
def test_the_plan_follows_every_control(field):
    panel = wb.explore(model="nemotron-3-nano-30b-a3b", **START.get(field, {}))
    before = panel.scenario
    panel.controls[field].value = CHANGES[field]
    expected = before.replace(**{field: MEANS.get(field, CHANGES[field])})
    assert panel.scenario == expected != before
    assert input_error(panel) == ""
    assert panel.session.errors == []
    if panel.error is None:
        assert_shows_its_plan(panel)


def test_of_a_device_and_what_contradicts_it_the_newest_counts():
    panel = wb.explore(model="llama-3.1-8b", compute_capability="8.0")
    panel.controls["device"].value = "MI300X"
    assert (panel.scenario.platform, panel.scenario.compute_capability) == ("rocm", None)
    assert panel.controls["platform"].value == "rocm"
    panel.controls["device"].value = "H100"
    assert panel.scenario.platform == "cuda"
    panel.controls["compute_capability"].value = "10.0"
    assert (panel.scenario.device, panel.scenario.compute_capability) == (None, "10.0")
    assert "no device is named now" in panel._notice.value
    assert panel.session.errors == []


def test_a_round_through_the_catalog_updates_one_figure_in_place(panel):
    view = panel._figure.view
    for name in (*distinct_models()[::4], "mamba-2.8b", "llama-3.1-8b", "nemotron-3-nano-30b-a3b"):
        panel.controls["model"].value = name
        assert panel.scenario.model == name
        assert panel._figure.view is view
        assert_shows_its_plan(panel)


def test_setting_a_value_back_gives_the_first_plan_again(panel):
    first = panel.plan
    panel.controls["tensor_parallel"].value = 2
    panel.controls["block_size"].value = "64"
    assert panel.plan != first
    panel.controls["tensor_parallel"].value = 1
    panel.controls["block_size"].value = ""
    assert panel.plan == first


def test_engines_choice_is_none(panel):
    panel.controls["backend"].value = "FLASHINFER"
    assert panel.scenario.backend == "FLASHINFER"
    panel.controls["backend"].value = ENGINE
    assert panel.scenario.backend is None


def test_dependent_pickers_follow_the_platform(panel):
    assert "FLASH_ATTN" in options(panel, "backend")
    panel.controls["platform"].value = "rocm"
    assert "FLASHINFER" not in options(panel, "backend")
    assert "TRITON_ATTN" in options(panel, "backend")
    assert options(panel, "compute_capability") == (ENGINE,)
    panel.controls["platform"].value = "cuda"
    assert "FLASHINFER" in options(panel, "backend")
    assert "10.0" in options(panel, "compute_capability")


def test_dependent_pickers_follow_the_model(panel):
    assert 3 not in options(panel, "tensor_parallel")
    panel.controls["model"].value = "plamo-2-1b"
    assert "float16" not in options(panel, "dtype")
    panel.controls["model"].value = "nemotron-3-nano-30b-a3b"
    assert "float16" in options(panel, "dtype")


def test_a_backend_that_is_lost_is_reset_with_a_notice(panel):
    panel.controls["backend"].value = "FLASHINFER"
    panel.controls["platform"].value = "rocm"
    assert panel.scenario.backend is None
    assert panel.controls["backend"].value == ENGINE
    assert "Backend FLASHINFER is not available here" in panel._notice.value
    assert panel.plan.problems == wb.resolve(Scenario(platform="rocm")).problems
    panel.controls["tensor_parallel"].value = 2
    assert panel._notice.value == ""


def test_a_backend_that_stays_valid_is_kept(panel):
    panel.controls["backend"].value = "TRITON_ATTN"
    panel.controls["platform"].value = "rocm"
    assert panel.scenario.backend == "TRITON_ATTN"
    assert panel._notice.value == ""


@pytest.mark.parametrize(
    ("field", "text", "nearest"),
    [
        ("block_size", "0", "16"),
        ("block_size", "-16", "16"),
        ("block_size", "16.0", "16"),
        ("block_size", "1e9", "1000000000"),
        ("block_size", "9999999999", "2147483632"),
        ("block_size", "NaN", None),
        ("block_size", "sixteen", None),
        ("mamba_block_size", "-1", "1"),
        ("max_model_len", "0", "1"),
        ("max_num_batched_tokens", "1" * 5000, None),
        ("max_num_batched_tokens", "<b>", None),
    ],
)
def test_bad_input_keeps_the_plan_and_the_input(panel, field, text, nearest):
    plan, scenario = panel.plan, panel.scenario
    panel.controls[field].value = text
    assert panel.plan is plan
    assert panel.scenario is scenario
    assert panel.controls[field].value == text
    error = input_error(panel)
    assert f"<code>{field}</code>" in error
    assert "<b>'" not in error
    if nearest is not None:
        assert f"Nearest valid value: {nearest}." in error
    panel.controls[field].value = "2048"
    assert input_error(panel) == ""
    assert getattr(panel.scenario, field) == 2048


def test_bad_input_taken_back_clears_the_message(panel):
    panel.controls["block_size"].value = "x"
    assert input_error(panel)
    panel.controls["block_size"].value = ""
    assert input_error(panel) == ""


def test_a_block_size_that_no_backend_supports_offers_tested_remedies(panel):
    panel.controls["block_size"].value = "15"
    problem = panel.plan.errors[0]
    assert problem.message.partition("<")[0][:40] in text(panel)
    button = buttons(panel)[0]
    assert button.description.startswith("Apply ")
    button.click()
    assert all(other.code != problem.code for other in panel.plan.problems)
    assert_shows_its_plan(panel)


def test_a_refused_scenario_is_marked_stale_and_a_remedy_repairs_it():
    panel = wb.explore(model="plamo-2-1b")
    plan = panel.plan
    panel.session.request(panel.scenario.replace(dtype="float16"))
    assert panel.error.code == "float16_not_supported"
    assert panel.plan is plan
    assert is_stale(panel)
    assert not is_verdict_stale(panel)
    assert 'data-value=""' in headline(panel)
    assert "vLLM refuses" in headline(panel)
    assert "float16_not_supported" in text(panel)
    descriptions = [button.description for button in buttons(panel)]
    assert "Apply dtype = bfloat16" in descriptions
    buttons(panel)[descriptions.index("Apply dtype = bfloat16")].click()
    assert panel.scenario.dtype == "bfloat16"
    assert_shows_its_plan(panel)
    assert panel.session.errors == []


def test_a_panel_can_start_refused_and_be_repaired():
    panel = wb.explore(model="plamo-2-1b", dtype="float16")
    assert panel.plan is None
    assert is_stale(panel)
    assert figure(panel) is None
    buttons(panel)[0].click()
    assert_shows_its_plan(panel)


def test_every_remedy_on_offer_works():
    for fields in (
        {"model": "plamo-2-1b", "dtype": "float16"},
        {"model": "jamba-1.5-mini", "tensor_parallel": 3},
        {"block_size": 15},
        {"platform": "xpu", "tensor_parallel": 4, "rules": "before-37467"},
        {"model": "kimi-linear-48b-a3b", "kv_cache_dtype": "fp8_ds_mla"},
    ):
        count = len(buttons(wb.explore(**fields)))
        for number in range(count):
            panel = wb.explore(**fields)
            before = {problem.code for problem in panel.plan.errors} if panel.plan else None
            buttons(panel)[number].click()
            assert panel.error is None
            assert panel.session.errors == []
            after = {problem.code for problem in panel.plan.errors}
            assert after == set() if before is None else after < before or not after


def test_an_unknown_model_is_refused_in_place(panel):
    path = next(picker for picker in panel._pickers if type(picker).__name__ == "ModelPath")
    before = panel.scenario
    path.widget.value = "./nowhere/config.json"
    assert "cannot be read" in panel._problems._input_error.value
    assert panel.scenario == before
    assert path.widget.value == "./nowhere/config.json"
    path.widget.value = ""
    assert panel._problems._input_error.value == ""
    assert_shows_its_plan(panel)


def test_an_emptied_path_returns_to_the_last_catalog_model(panel, request):
    panel.controls["model"].value = "bamba-9b"
    path = next(picker for picker in panel._pickers if type(picker).__name__ == "ModelPath")
    file = request.config.rootpath / "tests" / "data" / "models" / "jamba_1_5_mini.json"
    path.widget.value = str(file)
    assert panel.scenario.model == str(file)
    path.widget.value = ""
    assert panel.scenario.model == "bamba-9b"
    assert_shows_its_plan(panel)


def test_a_path_to_a_config_is_a_model(panel, request):
    path = next(picker for picker in panel._pickers if type(picker).__name__ == "ModelPath")
    file = request.config.rootpath / "tests" / "data" / "models" / "bamba_9b.json"
    path.widget.value = f"  {file}  "
    assert panel.scenario.model == str(file)
    assert panel.plan.model.family == "bamba"
    assert_shows_its_plan(panel)


def test_a_model_name_is_escaped_everywhere():
    panel = wb.explore(model=evil_config(), block_size=15)
    assert panel.plan.model.name == EVIL
    assert panel.plan.problems
    assert "<img" not in text(panel)
    assert "<img" not in panel._repr_mimebundle_()["text/html"]
    assert "onerror" not in figure(panel).to_json()
    panel.session.request(panel.scenario.replace(tensor_parallel=3))
    assert panel.error is not None
    assert EVIL in panel.error.message
    assert "<img" not in text(panel)
    assert not any(getattr(button, "description_allow_html", False) for button in buttons(panel))


def test_the_static_twin_is_the_summary(panel):
    bundle = panel._repr_mimebundle_()
    assert bundle["text/plain"] == repr(panel.plan)
    assert bundle["text/html"] == panel.plan._repr_html_()
    assert "application/vnd.jupyter.widget-view+json" in bundle


def test_the_static_twin_never_shows_a_plan_that_is_stale(panel):
    panel.session.request(panel.scenario.replace(tensor_parallel=3))
    bundle = panel._repr_mimebundle_()
    assert panel.error.message in bundle["text/plain"]
    assert "heads_not_divisible" in bundle["text/html"]
    assert "wb-block-size" not in bundle["text/html"].partition("</style>")[2]


def test_an_impossible_start_is_an_ordinary_error():
    with pytest.raises(ScenarioError):
        wb.explore(tensor_parallel=0)


def test_it_opens_on_a_plan():
    plan = wb.resolve(model="bamba-9b", tensor_parallel=2)
    assert wb.explore(plan).plan == plan
    assert wb.explore(plan, tensor_parallel=1).scenario == plan.scenario.replace(tensor_parallel=1)
