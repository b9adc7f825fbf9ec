"""A figure names the plan that it was drawn from, and one plan always draws the same figure."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

import workbench as wb
from workbench.core.flex.plan import flex_plan
from workbench.core.offload.plan import OffloadRequest
from workbench.core.plan import Plan
from workbench.views import figures
from workbench.views.frame import UPLOAD_BUTTON

FILL = {
    "prompt_tokens": 1024,
    "designed_for_tokens": 1024,
    "request": OffloadRequest(cpu_bytes_to_use=2**33),
}


def drawings():
    """Yield every public figure that takes a plan first."""
    found = {}
    for name in figures.__all__:
        draw = getattr(figures, name)
        parameters = list(inspect.signature(draw).parameters.values())
        drawn = str(inspect.signature(draw).return_annotation)
        if "Figure" in drawn and parameters[0].annotation in {"Plan", Plan}:
            found[name] = draw
    return found


def plan_of(**values):
    return wb.resolve(
        wb.Scenario(
            model="qwen3.5-4b",
            enable_prefix_caching=True,
            max_num_batched_tokens=8192,
            max_model_len=8192,
            kv_cache_memory_bytes="20 GiB",
            **values,
        )
    )


def arguments(draw, plan):
    needed = inspect.signature(draw).parameters
    fields = {"backend": "FLEX_ATTENTION", "flex_attn_kv_block_size": 16}
    flex = wb.resolve(plan.scenario.replace(**fields))
    fill = {**FILL, "flex": flex_plan(flex)}
    return {name: value for name, value in fill.items() if name in needed}


def test_the_figures_of_plans_are_found():
    assert {"page", "capacity", "memory_bar", "hit_curve", "groups"} <= set(drawings())


@pytest.mark.parametrize("name", drawings())
def test_a_figure_carries_its_plan_and_is_drawn_from_it_alone(name):
    draw = drawings()[name]
    plan, other = plan_of(), plan_of(tensor_parallel=2)
    first, again = (draw(one, **arguments(draw, one)) for one in (plan, plan_of()))
    assert first.layout.meta == {"plan": plan.fingerprint}
    assert first.to_json() == again.to_json()
    assert draw(other, **arguments(draw, other)).layout.meta == {"plan": other.fingerprint}


@pytest.mark.parametrize("name", drawings())
def test_no_figure_has_a_button_that_uploads_its_data(name):
    plan = plan_of()
    drawn = drawings()[name](plan, **arguments(drawings()[name], plan))
    assert UPLOAD_BUTTON in drawn.layout.modebar.remove


def test_every_figure_is_laid_out_by_the_shared_frame():
    for path in Path(figures.__file__).parent.rglob("*.py"):
        source = path.read_text(encoding="utf-8")
        if path.name != "frame.py":
            assert source.count("go.Layout(") <= source.count("= frame("), path
            assert source.count("update_layout(") <= source.count(" frame("), path
            assert "layout={" not in source, path


def test_the_fingerprint_of_a_saved_design_stays():
    saved = {"bamba-9b": "9b50cd24", "zamba2-7b": "690a8f08", "deepseek-v3": "e143ac62"}
    assert {model: wb.resolve(model=model).fingerprint for model in saved} == saved


def test_the_fingerprint_differs_with_every_setting():
    prints = [
        plan_of().fingerprint,
        plan_of(tensor_parallel=2).fingerprint,
        plan_of(kv_cache_dtype="fp8").fingerprint,
        plan_of(gpu_memory_utilization=0.5).fingerprint,
    ]
    assert len(set(prints)) == len(prints)
    assert isinstance(plan_of(), Plan)
    assert prints[0] in plan_of()._repr_html_()
