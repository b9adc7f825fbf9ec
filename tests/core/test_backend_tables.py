"""The tables of the versions: a backend is added in one place, and read whole."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.models.configs import deepseek_v3, qwen3_5
from workbench.core.backends import Backend, Capabilities, LayerQuery, MultipleOf, Rank
from workbench.core.layouts.shapes import DIMENSIONS
from workbench.core.versions import RULE_SETS, V0_23, V0_33
from workbench.scenario import FIELDS, Scenario
from workbench.scenario.resolution import resolve

ONE = Backend(
    "TEST_ONLY_ATTN",
    platforms=("cuda",),
    supported=(MultipleOf(16),),
    ranks=(Rank("cuda", 1),),
    cache=V0_23.backends["FLASH_ATTN"].cache,
)


@pytest.fixture
def with_one():
    V0_23.backends.add(ONE.name, ONE)
    yield
    V0_23.backends.remove(ONE.name)


@pytest.mark.parametrize("rules", list(RULE_SETS))
def test_a_backend_that_is_added_once_is_in_every_version(with_one, rules):
    assert ONE.name in FIELDS["backend"].kind.candidates(rules)
    plan = resolve(model=qwen3_5(), rules=rules)
    assert plan.backend == ONE.name
    assert not plan.errors


@pytest.mark.parametrize("rules", list(RULE_SETS))
def test_a_backend_that_is_taken_out_is_in_no_version(rules):
    V0_23.backends.add(ONE.name, ONE)
    V0_23.backends.remove(ONE.name)
    assert ONE.name not in RULE_SETS[rules].backends
    assert resolve(model=qwen3_5(), rules=rules).backend != ONE.name


def test_a_later_version_keeps_its_own_record_of_a_name():
    own = V0_33.backends["B12X"]
    V0_23.backends.add("B12X", replace(ONE, name="B12X"))
    assert V0_33.backends["B12X"] is own
    V0_23.backends.remove("B12X")
    assert V0_33.backends["B12X"] is own


def test_a_view_of_one_allocation_has_the_axes_that_its_orders_count():
    for record in V0_33.backends.values():
        assert record.cache is None or len(record.cache.axes) == len(DIMENSIONS) - 1


@pytest.mark.parametrize(
    ("capability", "first"), [((9, 0), "FLASH_ATTN"), ((10, 0), "FLASHINFER"), (None, "CPU_ATTN")]
)
def test_the_smallest_rank_comes_first(capability, first):
    platform = "cpu" if capability is None else "cuda"
    plan = resolve(model="qwen3-8b")
    query = LayerQuery.of(plan)._replace(platform=platform, capability=capability)
    for rules in (V0_23, V0_33):
        assert rules.backends.order(query)[0] == first


@pytest.mark.parametrize("rules", RULE_SETS)
def test_ranks_leave_room_between_them(rules):
    """A later version puts its backends in between and changes no earlier record."""
    ranks = [rank for record in RULE_SETS[rules].backends.values() for rank in record.ranks]
    assert ranks
    assert [rank for rank in ranks if rank.number <= 0 or rank.number % 5] == []


def test_limits_read_as_text():
    assert str(Capabilities()) == "any"
    assert str(Capabilities(majors=(9, 10))) == "9.x, 10.x"
    assert str(Capabilities(exact=((9, 0),))) == "9.0"
    assert str(Capabilities(at_least=(8, 0), at_most=(12, 1))) == ">= 8.0, <= 12.1"


IGNORED = [
    # get_attn_backend_cls of XPU and CPU decides these before it looks at the request
    ({"platform": "xpu", "kv_cache_dtype": "turboquant_4bit_nc"}, "TRITON_ATTN", "TURBOQUANT"),
    ({"platform": "xpu", "dtype": "float32"}, "FLASH_ATTN", "TRITON_ATTN"),
    ({"platform": "xpu", "dtype": "float32"}, "TURBOQUANT", "TRITON_ATTN"),
    ({"platform": "cpu"}, "FLASH_ATTN", "CPU_ATTN"),
    ({"platform": "xpu", "model": deepseek_v3(index_topk=2048)}, "TRITON_MLA", "XPU_MLA_SPARSE"),
]


@pytest.mark.parametrize("rules", ["0.23", "0.33"])
@pytest.mark.parametrize(("values", "requested", "used"), IGNORED)
def test_a_request_that_a_platform_ignores_changes_nothing(rules, values, requested, used):
    scenario = Scenario(**{"model": "llama-3.1-8b", "rules": rules, **values})
    plan = resolve(scenario.replace(backend=requested))
    assert plan.backend == used == resolve(scenario).backend
    assert "backend_not_valid" not in {problem.code for problem in plan.problems}
    assert plan.trace.step("backend").operands["explicit"] == requested


def test_xpu_refuses_what_it_does_not_know():
    plan = resolve(model="llama-3.1-8b", platform="xpu", backend="TURBOQUANT")
    assert plan.errors[0].vllm_text.startswith("Invalid attention backend for")


@pytest.mark.parametrize("rules", RULE_SETS)
def test_whatever_reads_keys_says_what_its_view_is(rules):
    found = RULE_SETS[rules].backends.values()
    assert [one.name for one in found if one.cache is None and not one.is_ssm] == []


def test_layers_that_read_other_kernel_blocks_are_named_apart():
    plan = resolve(model="minimax-m3", device="B200", tensor_parallel=4, rules="0.33")
    (problem,) = plan.errors
    assert "FLASHINFER, layers of one group read kernel blocks [16, 32, 64] and [128]" in (
        problem.message
    )
