"""The environment of a question: neither what the one before set nor what vLLM set for it."""

import os

import pytest

from workbench.verify.vllm_probe import configuration


@pytest.fixture
def environment(monkeypatch):
    monkeypatch.setattr(os, "environ", {"VLLM_CACHE_ROOT": "/cache", "HOME": "/home"})
    monkeypatch.setattr(configuration, "_FIRST", {})
    return lambda variables: configuration._set_environment(variables) or dict(os.environ)


def test_each_question_begins_with_the_environment_before_the_first(environment):
    first = dict(os.environ)
    wanted = {"VLLM_BATCH_INVARIANT": "1", "VLLM_CACHE_ROOT": "/other"}
    assert environment(wanted) == first | wanted
    os.environ["VLLM_MLA_DISABLE"] = "1"  # by TransformersForCausalLM
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = "/tmp"
    assert environment({}) == first | {"TORCHINDUCTOR_CACHE_DIR": "/tmp"}
