"""What the files next to a config.json say about the weights, and ModelOpt's quantization."""

import json
import struct

import pytest

import workbench as wb
from tests.models import configs
from workbench.models.checkpoint import (
    INDEX_NAME,
    QUANTIZATION_NAME,
    SINGLE_NAME,
    Checkpoint,
    read_checkpoint,
)

WIDTHS = {"hidden_size": 4096, "intermediate_size": 14336, "vocab_size": 32000}
UNKNOWN = {"quantization_config": {"quant_method": "quark"}}
MODELOPT = {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "FP8"}}
NO_VOCABULARY = {"model.layers.0.mlp.up_proj.weight": "model-00001-of-00001.safetensors"}


def llama(**changes):
    return configs.llama(**WIDTHS, **changes)


def folder(path, config, index=None, quantization=None):
    for name, content in (
        ("config.json", config),
        (INDEX_NAME, index),
        (QUANTIZATION_NAME, quantization),
    ):
        if content is not None:
            (path / name).write_text(json.dumps(content), encoding="utf-8")
    return str(path)


def index(total, names=NO_VOCABULARY):
    return {"metadata": {"total_size": total}, "weight_map": names}


def memory(reference):
    return wb.resolve(model=reference, device="H100").memory()


def reasons(answer):
    return " ".join(one.reason for one in answer.doubts)


def test_the_index_is_the_size_where_the_weights_are_not_described(tmp_path):
    answer = memory(folder(tmp_path, llama(**UNKNOWN), index(10**10)))
    assert answer.terms[0] == ("weights", 10**10, "the checkpoint's size")
    assert "checkpoint's size" in reasons(answer)
    assert memory(llama(**UNKNOWN)).missing.field == "weights_bytes"


def test_ranks_share_the_checkpoint(tmp_path):
    reference = folder(tmp_path, llama(**UNKNOWN), index(10**10))
    plan = wb.resolve(model=reference, device="H100", tensor_parallel=2)
    assert plan.memory().terms[0].size_bytes == 10**10 // 2


@pytest.mark.parametrize("ranks", [1, 2])
def test_layers_that_are_not_described_are_as_wide_as_ordinary_ones(tmp_path, ranks):
    many = {"device": "H100", "max_num_batched_tokens": 65536, "tensor_parallel": ranks}
    reference = folder(tmp_path, llama(**UNKNOWN), index(10**10))
    unknown, known = (
        {term.name: term.size_bytes for term in wb.resolve(model=model, **many).memory().terms}
        for model in (reference, llama())
    )
    assert known["activations"] <= unknown["activations"] < 1.2 * known["activations"]


@pytest.mark.parametrize(("share", "in_doubt"), [(1.0, False), (0.5, True), (3.0, True)])
def test_a_checkpoint_of_another_size_is_in_doubt(tmp_path, share, in_doubt):
    size = memory(llama()).terms[0].size_bytes
    answer = memory(folder(tmp_path, llama(), index(int(share * size))))
    assert ("size differs" in reasons(answer)) == in_doubt
    assert answer.terms[0].size_bytes == size


def test_a_single_file_has_a_header(tmp_path):
    tensors = {
        "__metadata__": {"format": "pt"},
        "lm_head.weight": {"dtype": "BF16", "shape": [2, 2], "data_offsets": [0, 8]},
        "norm.weight": {"dtype": "BF16", "shape": [2], "data_offsets": [8, 12]},
    }
    header = json.dumps(tensors).encode()
    path = tmp_path / SINGLE_NAME
    path.write_bytes(struct.pack("<Q", len(header)) + header + b"\0" * 12)
    assert read_checkpoint(tmp_path) == Checkpoint(12, has_vocabulary=True)
    path.write_bytes(struct.pack("<Q", 2**63) + header)
    assert read_checkpoint(tmp_path) is None


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"metadata": []}', '{"metadata": {"total_size": "8"}}', "[" * 999]
)
def test_an_index_that_is_none_changes_nothing(tmp_path, text):
    reference = folder(tmp_path, llama())
    (tmp_path / INDEX_NAME).write_text(text, encoding="utf-8")
    assert read_checkpoint(tmp_path) is None
    assert memory(reference).doubts == memory(llama()).doubts


@pytest.mark.parametrize(
    ("names", "in_doubt"),
    [(NO_VOCABULARY, False), ({"embed_tokens.weight": "one.safetensors"}, True)],
)
def test_a_drafter_without_a_vocabulary_takes_the_target_s(tmp_path, names, in_doubt):
    head = llama(architectures=["LlamaForCausalLM"])
    plan = wb.resolve(
        model=llama(),
        speculative_method="eagle",
        num_speculative_tokens=2,
        draft_model=folder(tmp_path, head, index(10**8, names)),
        device="H100",
    )
    assert ("vocabulary" in reasons(plan.memory())) == in_doubt


def test_modelopt_s_quantization_is_that_of_the_model(tmp_path):
    plain = wb.load_model(folder(tmp_path, llama()))
    quantized = wb.load_model(folder(tmp_path, llama(), quantization=MODELOPT))
    assert (plain.quantization, quantized.quantization) == (None, "modelopt")
    assert memory(str(tmp_path)).terms[0].size_bytes < memory(llama()).terms[0].size_bytes


@pytest.mark.parametrize("own", [{"quant_method": "fp8"}, {"quant_method": "awq", "bits": 4}])
def test_quantization_of_config_json_comes_first(tmp_path, own):
    reference = folder(tmp_path, llama(quantization_config=own), quantization=MODELOPT)
    assert wb.load_model(reference).quantization == own["quant_method"]


@pytest.mark.parametrize("text", ["", "[]", "{"])
def test_a_quantization_that_is_not_readable_is_none(tmp_path, text):
    reference = folder(tmp_path, llama())
    (tmp_path / QUANTIZATION_NAME).write_text(text, encoding="utf-8")
    assert wb.load_model(reference).quantization is None


@pytest.mark.parametrize("name", [INDEX_NAME, SINGLE_NAME])
def test_an_index_that_would_fill_memory_is_as_good_as_none(tmp_path, monkeypatch, name):
    held = b'{"metadata": {"total_size": 1}, "a": [' + b"[]," * 1_000_000 + b"1]}"
    start = struct.pack("<Q", len(held)) if name == SINGLE_NAME else b""
    (tmp_path / name).write_bytes(start + held)
    monkeypatch.setattr("json.loads", None)
    assert read_checkpoint(tmp_path) is None
