"""A call that an inspector reports on is the one that its name says."""

import re
from types import SimpleNamespace

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

import torch

from workbench.kernels.paged_flex import calls
from workbench.kernels.paged_flex.device import default_settings
from workbench.kernels.paged_flex.settings import BITWISE, FAST

CALLS = {call.name: call for call in calls.INSPECTED}


@pytest.fixture
def made(monkeypatch):
    """A function: call -> what it gives to `paged_attention`."""
    found = []

    def note(query, cache, batch, **named):
        found.append(SimpleNamespace(query=query, cache=cache, batch=batch, **named))

    def run(call):
        monkeypatch.setattr(calls, "paged_attention", note)
        call.run()
        return found.pop()

    return run


def number(name, word, otherwise):
    found = re.search(rf"{word} (\d+)", name)
    return int(found.group(1)) if found else otherwise


def test_every_call_has_a_name_of_its_own():
    assert len(CALLS) == len(calls.INSPECTED)
    assert all(call.limited for call in calls.INSPECTED)


@pytest.mark.parametrize("name", CALLS)
def test_a_call_is_what_its_name_says(made, name):
    given = made(CALLS[name])
    batch, mla = given.batch, name.startswith("MLA")
    # a decode has more keys than the shortest split
    [queries], [tokens] = batch.query_lens.tolist(), batch.seq_lens.tolist()
    assert (queries == 1) == ("decode" in name)
    assert queries in {1, tokens}
    assert (tokens > FAST.split_tokens) == ("decode" in name)
    page = number(name, "page", 64)
    assert batch.entry_tokens == number(name, f"page {page} in", page)
    head = number(name, "keys", 576 if mla else number(name, "head", 128))
    value = number(name, "values", 512 if mla else head)
    assert given.value_dim == value
    group = 128 if mla else 4
    assert given.query.shape == (queries, 2 * group, head)
    if value == head:
        assert given.cache.shape[1:] == (2, page, 2, head)
    else:
        # an MLA value is a part of its key
        assert given.cache.shape[1:] == (page, 2, head if mla else head + value)
    kind = re.search("bfloat16|float32", name)
    assert given.query.dtype == getattr(torch, kind.group(0) if kind else "float16")
    small = "int8 cache" in name
    assert given.cache.dtype == (torch.int8 if small else given.query.dtype)
    scales = {word: one for word, one in vars(given).items() if word.endswith("_scale")}
    assert scales.keys() == ({"key_scale", "value_scale"} if small else set())
    assert all(one.tolist() == [1.0, 1.0] for one in scales.values())
    mask = "window 1024" if "window" in name else "documents" if "documents" in name else "causal"
    assert given.mask.name == mask
    assert (given.score and given.score.name) == ("soft cap 30" if "soft cap" in name else None)
    assert given.settings == default_settings(given.query.device, bitwise="bitwise" in name)


def test_settings_of_ones_own_take_the_place_of_the_targets(made):
    assert made(calls.attention_call("own", BITWISE)).settings is BITWISE
