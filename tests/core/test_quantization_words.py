"""Every word of `--quantization` next to every way in which a checkpoint is quantized already."""

from contextlib import suppress
from itertools import product

import pytest

import workbench as wb
from workbench.core.errors import WorkbenchError
from workbench.core.versions import RULE_SETS
from workbench.models import catalog_names, load_model
from workbench.scenario import FIELDS

BY_METHOD = {load_model(name).quantization: name for name in reversed(catalog_names())}
"""Method -> the first catalog model with it."""


@pytest.mark.parametrize("rules", RULE_SETS)
@pytest.mark.parametrize("method", sorted(filter(None, BY_METHOD)))
def test_a_word_has_a_plan_or_a_reason(method, rules):
    for word, ranks in product(FIELDS["quantization"].kind.candidates(rules), (1, 8)):
        fields = {"rules": rules, "tensor_parallel": ranks, "quantization": word}
        with suppress(WorkbenchError):
            assert wb.resolve(BY_METHOD[method], **fields).steps


def test_a_scale_of_a_whole_row_is_never_cut():
    """Layers that a checkpoint in NVFP4 leaves plain are quantized by the word of the user."""
    given = {"rules": "0.33", "tensor_parallel": 8, "quantization": "fp8_per_channel"}
    plan = wb.resolve("deepseek-v3.1", **given)
    assert plan.model.quantization == "modelopt_fp4"
    assert not plan.errors
