"""Write one line of the catalog from a published config.json.

    tools/catalog_entry.py Qwen/Qwen3-14B config.json --name qwen3-14b --origin "where it was read"

The line states what differs from the line that is nearest to it. Fields that say nothing of sizes
are omitted (`OMITTED`); long tables of quantized modules are written with *, or name one expert of
each layer, where the weights are known and that changes no number. The model that is read from the
line is that of the whole file, or nothing is written. Without --name the checkpoint is found by its
hub id only. --merge FILE adds hf_quant_config.json, which vLLM reads where config.json has no
quantization_config.
"""

import argparse
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from workbench.models import read_model
from workbench.models.catalog import NAMED, UNNAMED, catalog_entries, merged, whole_config
from workbench.models.json_file import read_config

FOLDER = Path(__file__).parents[1] / "workbench" / "models"
LONG = 300
"""Characters of a table in quantization_config that is shortened if the model is read the same."""
TABLES = ("ignore", "exclude_modules", "modules_to_not_convert", "quantized_layers", "targets")
"""Names of such tables, which say how each module is stored."""
OMITTED = re.compile(
    r"auto_map|transformers_version|_name_or_path|use_cache|initializer_range|\w*dropout\w*|\w*pdrop"
    r"|\w*_token_(id|index)|\w*_token|output_(router_logits|attentions|hidden_states)|seq_aux"
    r"|\w*aux_loss_(coef|alpha)|router_jitter_noise|pretraining_tp|return_dict\w*|task_specific_params"
    r"|id2label|label2id|problem_type|(max|min)_length|temperature|top_[kp]|typical_p|\w*_penalty"
    r"|num_(beams|beam_groups|return_sequences)|do_sample|early_stopping|bad_words_ids|finetuning_task"
    r"|remove_invalid_values|suppress_tokens|begin_suppress_tokens|no_repeat_ngram_size|prefix"
    r"|tokenizer_class|torchscript|use_bfloat16|chunk_size_feed_forward|diversity_penalty|unsloth\w*"
)
EXPERTS = ".experts."
"""In names of modules: one expert says how all of its layer are stored."""
NO_MATRIX = re.compile(r"norm\d*$|\.(A_log|dt_bias)$")
"""Names of modules that are never quantized, listed or not."""
REQUIRED = {
    "eos_token_id": "ple_layer_ids",
    "dspark_noise_token_id": "dspark_block_size",
    "embedding_dropout": "moe_shared_expert_intermediate_size",
}
"""Field -> another with which transformers or vLLM refuses a file without it."""


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("hub_id")
    parser.add_argument("config", type=Path)
    parser.add_argument("--name")
    parser.add_argument("--origin", required=True)
    parser.add_argument("--note")
    parser.add_argument("--merge", type=Path)
    options = parser.parse_args()
    config = read_config(options.config)
    if options.merge is not None:
        config.setdefault("quantization_config", read_config(options.merge))
    facts = {"name": options.name, "origin": options.origin, "note": options.note}
    entry = {key: value for key, value in facts.items() if value is not None}
    entries = catalog_entries()
    place(options.hub_id, entry, config, entries)
    write(entries)


def place(
    hub_id: str, facts: dict[str, str], config: dict[str, Any], entries: dict[str, Any]
) -> None:
    """Put a line into `entries`; lines that are like it keep their values."""
    built = [one for one in entries if hub_id in lineage(one, entries)[1:]]
    wholes = {one: whole_config(entries, one) for one in built}
    removed = {one: entries.pop(one, None) for one in (hub_id, *built)}
    kept = without_long_tables(short(config))
    if described(kept) != described(config):
        sys.exit(f"{hub_id} is read otherwise than its file: look at the omitted fields.")
    entries[hub_id] = {**facts, **shortest(kept, entries)}
    for one, whole in wholes.items():
        own = {key: removed[one][key] for key in ("name", "origin", "note") if key in removed[one]}
        entries[one] = {**own, **shortest(whole, entries)}


def short(config: dict[str, Any]) -> dict[str, Any]:
    """Return a config.json without the fields that say nothing of sizes."""
    return {
        key: short(value) if isinstance(value, dict) else value
        for key, value in config.items()
        if REQUIRED.get(key) in config or not OMITTED.fullmatch(key)
    }


def without_long_tables(config: dict[str, Any]) -> dict[str, Any]:
    """Return a config.json with short tables of (un)quantized modules, if it is read the same."""
    read = described(config)
    if read_model(config, "x").weights.unknown:
        return config  # nothing would hold that a shorter table says the same
    for path, value in long_tables(config.get("quantization_config"), ("quantization_config",)):
        for shorter in shorter_tables(value):
            changed = replaced(config, path, shorter)
            if described(changed) == read:
                config = changed
                break
    return config


def long_tables(value: object, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the long tables of modules in the quantization of a config.json, with their paths."""
    for key, inner in value.items() if isinstance(value, dict) else ():
        if key in TABLES and len(json.dumps(inner)) > LONG:
            yield (*path, key), inner
        yield from long_tables(inner, (*path, key))


def shorter_tables(value: Any) -> tuple[Any, ...]:
    """Return shorter forms of a table, the truest first."""
    if isinstance(value, dict):
        layers: dict[str, str] = {}
        for name in value:
            layers.setdefault(name.partition(EXPERTS)[0] if EXPERTS in name else name, name)
        return ({name: value[name] for name in layers.values()},)
    patterns = [re.sub(r"\d+", "*", str(name)) for name in value]
    layers = [name for name in value if not NO_MATRIX.search(str(name))]
    return list(dict.fromkeys(patterns)), [], layers


def replaced(config: dict[str, Any], path: tuple[str, ...], value: Any) -> dict[str, Any]:
    """Return a config.json with one value replaced."""
    key, *rest = path
    return {**config, key: replaced(config[key], tuple(rest), value) if rest else value}


def described(config: dict[str, Any]) -> object:
    """Return the model that is read from a config.json, without what it says of the file."""
    model = read_model(config, "x")
    return replace(model, notes=(), origins={}), model.weights


def shortest(config: dict[str, Any], entries: dict[str, Any]) -> dict[str, Any]:
    """Return `config`, or what differs from another line, whichever takes fewest characters."""
    whole: dict[str, Any] = {"config": config}
    found = [whole]
    for like in entries:
        base = whole_config(entries, like)
        if base.get("model_type") == config.get("model_type"):
            patch = difference(base, config)
            if merged(base, patch) == config:
                found.append({"like": like, **({"config": patch} if patch else {})})
    return min(found, key=lambda one: len(json.dumps(one)))


def lineage(hub_id: str, entries: dict[str, Any]) -> tuple[str, ...]:
    """Return a hub id and those that its line is built on."""
    like = entries[hub_id].get("like")
    return (hub_id, *(lineage(like, entries) if like else ()))


def difference(base: dict[str, Any], config: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON Merge Patch from one object to another."""
    patch: dict[str, Any] = {key: None for key in base if key not in config}
    for key, value in config.items():
        old = base.get(key)
        if isinstance(value, dict) and isinstance(old, dict):
            if inner := difference(old, value):
                patch[key] = inner
        elif key not in base or old != value or type(old) is not type(value):
            patch[key] = value
    return patch


def write(entries: dict[str, Any]) -> None:
    """Write one line per hub id, sorted."""
    pairs = sorted(entries.items(), key=lambda pair: pair[0].casefold())
    for file, is_named in ((NAMED, True), (UNNAMED, False)):
        lines = ",\n".join(
            f"{json.dumps(hub_id)}: {json.dumps(entry)}"
            for hub_id, entry in pairs
            if ("name" in entry) == is_named
        )
        (FOLDER / file).write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
