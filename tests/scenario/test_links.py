"""Links: every scenario comes back, and what is damaged or endless is refused."""

import zlib
from base64 import urlsafe_b64encode

import pytest

import workbench as wb
from workbench.core.errors import ScenarioError
from workbench.models import catalog_config
from workbench.scenario.links import (
    COMPRESSED,
    LINK,
    MOST_BYTES,
    link_of,
    read_link,
    read_whole_link,
)
from workbench.scenario.scenario import random_scenarios


@pytest.mark.parametrize("rules", ["0.23", "0.33"])
def test_every_scenario_comes_back(rules):
    for scenario in random_scenarios(300, 5, rules):
        link = link_of(scenario)
        assert link.isascii()
        assert not set(link) & set(' <>"\\^`') - {'"'}
        assert wb.Scenario.from_dict(read_link("https://example.org/page" + link)) == scenario


def test_a_link_with_a_config_is_compressed_and_comes_back():
    config = dict(catalog_config("qwen3-next-80b-a3b"))
    scenario = wb.Scenario(model=config, tensor_parallel=4)
    link = link_of(scenario)
    assert link.startswith(LINK + COMPRESSED)
    assert len(link) < 2_000
    assert wb.Scenario.from_dict(read_link(link)) == scenario


def test_a_link_holds_the_length_and_what_is_compared():
    now, pinned = wb.Scenario(model="bamba-9b"), wb.Scenario(model=dict(catalog_config("qwen3-8b")))
    link = link_of(now, length=131_072, pinned=pinned)
    found = read_whole_link(f"https://example.org/page{link}")
    assert (found.fields, found.length) == ({"model": "bamba-9b"}, 131_072)
    assert wb.Scenario(**found.pinned) == pinned
    assert read_link(link) == found.fields
    assert read_whole_link(link_of(now)) == ({"model": "bamba-9b"}, None, None)
    for damaged in ("&length=", "&length=0", "&length=x", "&length=1e9", "&pinned=", "&pinned=3"):
        with pytest.raises(ScenarioError, match="The link is damaged"):
            read_whole_link(link_of(now) + damaged)


def test_a_plan_has_the_link_of_its_scenario():
    plan = wb.resolve(model="bamba-9b", tensor_parallel=2)
    assert read_link(plan.link()) == {"model": "bamba-9b", "tensor_parallel": 2}


LONG = urlsafe_b64encode(zlib.compress(b" " * (MOST_BYTES + 1))).decode()
WHOLE = link_of(wb.Scenario(model=dict(catalog_config("bamba-9b")))).removeprefix(LINK)


@pytest.mark.parametrize(
    "text",
    ["", "4", "[]", "{", COMPRESSED, COMPRESSED + "AAAA", COMPRESSED + LONG, WHOLE[:-9], "~é"],
)
def test_a_damaged_link_is_refused(text):
    with pytest.raises(ScenarioError) as caught:
        read_link(LINK + text)
    assert caught.value.code == "scenario_not_json"
    assert "Copy it again" in caught.value.message
