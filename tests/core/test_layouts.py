"""Cache layouts: vLLM's answers line by line, and the rules that decide a name."""

import ast
import json

import pytest

import workbench as wb
from tests.catalog import distinct_models, short_length
from tests.core.conformance import PLATFORMS, config
from tests.core.layout_cases import (
    RUNNERS,
    answer,
    cases,
    disagrees,
    published_views,
)
from tests.groups import in_groups
from tests.recorded import DATA
from workbench.core.groups.of_plan import possible_layouts
from workbench.core.layouts.error import LayoutError
from workbench.core.layouts.layer_views import stored_dtype
from workbench.core.layouts.of_plan import plan_layout
from workbench.core.layouts.packed import layer_places
from workbench.core.layouts.shapes import CacheGeometry
from workbench.core.layouts.shared_tensor import layout_name
from workbench.core.versions.v0_23 import layouts
from workbench.core.versions.v0_23.backends import BACKENDS
from workbench.core.versions.v0_33 import V0_33

ATTENTION_BACKENDS = [name for name, backend in BACKENDS.items() if backend.is_selectable]
KINDS = {"shapes": 751, "stride_orders": 52, "hybrid": 201}


@pytest.mark.parametrize("kind", KINDS)
def test_every_line_agrees_with_vllm(kind):
    lines = [case for case in cases() if case["kind"] == kind]
    assert len(lines) == KINDS[kind]
    assert [case["line"] for case in lines if disagrees(case)] == []


def test_every_line_is_compared():
    assert sum(KINDS.values()) == len(cases()) == 1004
    assert (DATA / "layouts.jsonl.gz").read_bytes()[4:8] == bytes(4)
    assert all("profile" in case for case in cases())


def test_a_changed_answer_would_be_noticed():
    for kind in KINDS:
        case = next(case for case in cases() if case["kind"] == kind)
        for field in answer(case):
            assert disagrees({**case, field: ("altered", case[field])})


def test_errors_are_part_of_the_lines():
    ambiguous = "Cannot determine layout for tensor of shape torch.Size("
    errors = {
        (found["error"], found["message"].split(":")[0])
        for case in cases()
        for found in answer(case).values()
        if isinstance(found, dict) and "error" in found
    }
    assert errors == {
        ("ValueError", "Block size must be a multiple of 16."),
        ("NotImplementedError", ""),
        ("RuntimeError", "setStorage"),
        ("AssertionError", ""),
        *(
            ("AssertionError", f"{ambiguous}{shape})")
            for shape in ("[2, 2, 32, 8, 128]", "[2, 2, 48, 2, 128]")
        ),
    }


def model_lines():
    """The hybrid lines of models whose config file is here."""
    here = {path.stem for path in (DATA / "models").iterdir()}
    return [
        case
        for case in cases()
        if case["kind"] == "hybrid" and case["label"].partition(":")[0] in here
    ]


def scenario(case):
    name, _, fields = case["label"].partition(":")
    fields = ast.literal_eval(fields)
    platform, capability = PLATFORMS[case["profile"]]
    mode = fields.get("mamba_cache_mode")
    return wb.Scenario(
        model=config(name),
        platform=platform,
        compute_capability=capability,
        backend=case["backend"],
        tensor_parallel=fields.get("tp", 1),
        kv_cache_dtype=fields.get("kv_cache_dtype", "auto"),
        enable_prefix_caching=mode is not None,
        mamba_cache_mode=mode,
        max_model_len=4096,
        max_num_batched_tokens=8192,
    )


def test_a_plan_leads_to_vllms_views():
    compared = 0
    for case in model_lines():
        if "error" in case["v1_gpu_model_runner"]:
            continue
        plan = wb.resolve(scenario(case))
        assert plan.block_size == case["attn_spec"]["block_size"]
        for runner, field in RUNNERS.items():
            views = plan_layout(
                plan, num_blocks=case["num_blocks"], runner=runner, layout=case["layout"]
            )
            if views.layout.name == case["layout"]:
                assert published_views(views) == case[field], case["line"]
                compared += 1
    assert compared >= 120


SPARSE = CacheGeometry(64, 1, 576, "fp8_ds_mla")
SHAPES = {
    "nvfp4": (layouts.FLASHINFER, CacheGeometry(16, 2, 128, "nvfp4"), (5, 2, 16, 2, 72)),
    "scales": (
        layouts.TRITON_ATTN, CacheGeometry(16, 2, 128, "fp8_per_token_head"), (5, 2, 16, 2, 132)
    ),
    "fp8_ds_mla": (layouts.PACKED_LATENT, SPARSE, (5, 64, 656)),
    "latent": (layouts.LATENT, SPARSE, (5, 64, 576)),
    "values": (
        layouts.FLASH_ATTN_DIFFERENT_VALUES, CacheGeometry(16, 2, 192, "auto", 128), (5, 16, 2, 320)
    ),
    "turboquant": (
        layouts.TURBOQUANT, CacheGeometry(16, 2, 128, "turboquant_k8v4"), (5, 16, 2, 196)
    ),
    "hidden states": (layouts.HIDDEN_STATES, CacheGeometry(16, 1, 4096), (5, 16, 1, 4096)),
}  # fmt: skip


@pytest.mark.parametrize("name", SHAPES)
def test_last_dimensions_that_are_not_heads(name):
    layout, geometry, shape = SHAPES[name]
    assert layout.shape(5, geometry) == shape
    assert layout.block_dim(geometry) == 0


def test_only_one_backend_does_not_put_blocks_first():
    def dim(name):
        return BACKENDS[name].cache.block_dim(CacheGeometry(64, 2, 128))

    assert {name for name in ATTENTION_BACKENDS if dim(name) != 0} == {"ROCM_ATTN"}
    assert dim("ROCM_ATTN") == 1


@pytest.mark.parametrize("name", ATTENTION_BACKENDS)
@pytest.mark.parametrize("layout", ["NHD", "HND"])
def test_orders_are_permutations(name, layout):
    cache = BACKENDS[name].cache
    assert sorted(cache.memory_order(layout)) == list(range(len(cache.axes)))
    if cache.orders is not None:
        assert cache.stride_order(layout) == cache.memory_order(layout)
        with_layers = cache.stride_order(layout, with_layers=True)
        assert sorted(with_layers) == list(range(len(cache.axes) + 1))


NAMES = {
    "default": ("FLASH_ATTN", "cuda", (9, 0), None, None, "NHD"),
    "connector": ("FLASH_ATTN", "cuda", (9, 0), None, "HND", "HND"),
    "environment over connector": ("FLASH_ATTN", "cuda", (9, 0), "NHD", "HND", "NHD"),
    "flashinfer on 10": ("FLASHINFER", "cuda", (10, 3), "NHD", None, "HND"),
    "flashinfer on 9": ("FLASHINFER", "cuda", (9, 0), "NHD", None, "NHD"),
    "flashinfer without capability": ("FLASHINFER", "cuda", None, None, None, "NHD"),
    "flashinfer mla": ("FLASHINFER_MLA", "cuda", (10, 0), "NHD", None, "HND"),
    "flashinfer mla sparse": ("FLASHINFER_MLA_SPARSE", "cuda", (10, 0), None, None, "HND"),
    "tokenspeed": ("TOKENSPEED_MLA", "cuda", (10, 0), None, "NHD", "HND"),
    "cpu": ("CPU_ATTN", "cpu", None, "NHD", None, "HND"),
    "xpu": ("FLASH_ATTN", "xpu", None, "HND", "HND", "NHD"),
}


@pytest.mark.parametrize("case", NAMES)
def test_what_decides_the_layout_name(case):
    backend, platform, capability, environment, connector, expected = NAMES[case]
    found = layout_name(
        [BACKENDS[backend]],
        platform,
        capability,
        environment=environment,
        connector=connector,
    )
    assert found.name == expected
    assert found.reason


DTYPES = {"auto": "float16", "bfloat16": "bfloat16", "fp8": "uint8", "nvfp4": "uint8",
          "int8_per_token_head": "int8", "fp8_inc": "float8_e4m3fn"}  # fmt: skip


def test_what_the_cache_stores():
    assert {dtype: stored_dtype(dtype, "float16") for dtype in DTYPES} == DTYPES


@in_groups
@pytest.mark.parametrize("model", distinct_models())
@pytest.mark.parametrize("runner", RUNNERS)
def test_every_catalog_model_has_a_safe_layout(model, runner):
    views = plan_layout(
        wb.resolve(model=model, max_model_len=short_length(model)),
        num_blocks=3,
        runner=runner,
    )
    assert views.misplaced_attention_bytes == views.misplaced_state_bytes == 0
    json.dumps(views.to_dict())


@pytest.mark.parametrize(
    ("values", "options", "expected"),
    [
        ({"kv_cache_layout": "HND"}, {}, ("HND", "VLLM_KV_CACHE_LAYOUT")),
        ({"kv_cache_layout": "HND"}, {"layout": "NHD"}, ("NHD", "VLLM_KV_CACHE_LAYOUT")),
        ({"kv_cache_layout": "NHD"}, {"connector": "HND"}, ("NHD", "VLLM_KV_CACHE_LAYOUT")),
        ({}, {"connector": "HND"}, ("HND", "wish of the KV connector")),
        ({}, {}, ("NHD", "default")),
    ],
)
def test_the_layout_of_the_scenario_is_the_variable(values, options, expected):
    scenario = wb.Scenario(model="llama-3.1-8b", backend="FLASH_ATTN", **values)
    views = plan_layout(wb.resolve(scenario), num_blocks=2, **options)
    assert (views.layout.name, views.layout.reason) == expected


@pytest.mark.parametrize("model", ["llama-3.1-8b", "qwen3.5-4b"])
@pytest.mark.parametrize("backend", ["FLEX_ATTENTION", "FLASH_ATTN", "TURBOQUANT"])
def test_an_explicit_layout_of_0_33_is_used_or_is_one_problem(model, backend):
    dtype = "turboquant_k8v4" if backend == "TURBOQUANT" else "auto"
    for name in V0_33.layouts.names:
        scenario = wb.Scenario(
            model=model,
            backend=backend,
            rules="0.33",
            kv_cache_dtype=dtype,
            kv_cache_layout=name,
            max_model_len=4096,
        )
        plan = wb.resolve(scenario)
        found = [p for p in plan.problems if p.code == "layout_not_supported"]
        if not found:
            assert plan.cache.grouping.layout == name
            continue
        (problem,) = found
        with pytest.raises(LayoutError) as caught:
            layer_places(plan, 2)
        assert problem.vllm_text == caught.value.vllm_text
        assert problem.vllm_text == (
            f"VLLM_KV_CACHE_LAYOUT={name} does not satisfy every supported set; valid layouts: "
            f"{list(possible_layouts(plan))}."
        )


@pytest.mark.parametrize(
    "backend",
    ["FLASHMLA_SPARSE", "FLASHINFER_MLA_SPARSE", "ROCM_AITER_MLA_SPARSE", "XPU_MLA_SPARSE"],
)
def test_sparse_latents_are_in_logical_order_without_declaring_it(backend):
    """As the classes of 0.23 answered: NotImplementedError without text."""
    layout = BACKENDS[backend].cache
    for with_layers in (False, True):
        with pytest.raises(LayoutError) as caught:
            layout.stride_order("HND", with_layers=with_layers)
        assert (caught.value.vllm_exception, caught.value.vllm_text) == ("NotImplementedError", "")
    assert layout.memory_order("HND") == (0, 1, 2)


@pytest.mark.parametrize(
    ("fields", "allowed"),
    [
        ({"backend": "ULTRAQUANT", "kv_cache_dtype": "ultraquant_4bit"}, ("LBNHC",)),
        (
            {"backend": "TRITON_FLASHINFER", "compute_capability": "10.0"},
            ("LBHNC", "BLHNC"),
        ),
    ],
)
def test_layouts_that_0_33_allows_as_its_classes_answered(fields, allowed):
    plan = wb.resolve(model="qwen3-8b", rules="0.33", **fields)
    assert possible_layouts(plan) == allowed
