"""The formats of a checkpoint's layers, and which layers it excludes from them."""

import re
from collections.abc import Callable, Iterable, Mapping
from fnmatch import translate
from types import MappingProxyType
from typing import NamedTuple

from workbench.core.formats import Format
from workbench.core.weights import Part

Excludes = Callable[[str], bool]
"""Whether a module of a checkpoint, by its path, keeps the model's dtype."""
Formats = tuple[Format | None, Format | None]
"""Of linear layers and of routed experts."""
MERGED = {
    "qkv_proj": ("q_proj", "k_proj", "v_proj"),
    "gate_up_proj": ("gate_proj", "up_proj"),
    "fused_qkv_a_proj": ("q_a_proj", "kv_a_proj_with_mqa"),
    "in_proj_qkvz": ("in_proj_qkvz", "in_proj_qkv"),
    "in_proj_ba": ("in_proj_ba", "in_proj_b"),
    "in_proj_qkvgfab": ("q_proj", "k_proj", "v_proj", "f_a_proj", "b_proj"),
    "w13": ("w1", "w3"),
}
"""Last name of vLLM's layer -> names in a checkpoint."""
WHOLE = {name: (name,) for name in MERGED}
"""The same where a merged layer is excluded by its own name alone."""
RENAMED = (
    ("language_model.", ""),
    ("model.visual", "visual"),
    ("thinker.", ""),
    ("backbone.", "model."),
)
"""Parts of paths that vLLM and checkpoints have in other places, or under other names."""
PLAIN, LATENT = ".attn", ".mla_attn"
"""Ends of the names of attention layers."""
FP8, FP8_STATIC = Format(bits=8, scalars=1), Format(bits=8, scalars=2)
EXPERTS_STATIC = Format(bits=8, scalars=1, fixed_bytes=4)
"""Experts share the scale of their inputs among merged outputs."""
NVFP4 = Format(4, block=(1, 16), scale_bytes=1, scalars=2)
FP4_ALONE = NVFP4._replace(scalars=1, halves=1)
"""NVFP4 with inputs in 16 bits; a place for their scale is emptied after loading."""
EXPERTS = ".experts."
MAX_ENTRIES, MAX_STARS, MAX_LISTED = 20_000, 4, 200_000
WILD = re.compile(r"[*?\[]")
SIMPLE = re.compile(r"(?:\w|\\?\.\*?|(?:\\d|\[[\w-]*\])\+?|[|^$-]|\((?:\?:)?[\w.|-]*\))*")
"""Expressions without nested repetition, whose time has no useful limit."""


class Scheme(NamedTuple):
    """How the linear layers of a checkpoint are stored."""

    linear: Format | None = None
    experts: Format | None = None
    """Of routed experts; None is that of the other layers."""
    excludes: Excludes = lambda _path: False
    cache_scales: Mapping[str, tuple[tuple[int, str | None], ...]] = MappingProxyType({})
    """What attention layers with these ends of their names have for a quantized cache, as numbers
    of a dtype; None is the model's."""
    multiple: int = 1
    """To which each rank's share of an expert is rounded up."""
    listed: Mapping[str, Formats] | None = None
    """The formats of a linear layer and of experts by their path, where the file lists them all."""
    chosen: tuple[tuple[Excludes, Formats], ...] = ()
    """Tests of a path, and the formats where one holds instead of the above."""
    overrides: tuple[tuple[Excludes, Formats], ...] = ()
    """The same for the path of vLLM's layer alone, whatever it is merged of."""
    earlier: Mapping[Format | None, Format | None] = MappingProxyType({})
    """Formats that 0.23 builds otherwise -> how it does; None is plain."""
    gates_experts: bool = False
    """Experts without a gate have the room of one in 0.23."""
    excludes_part: Excludes = lambda _path: False
    """Whether a part of a merged layer is excluded, which all or none of its parts may be."""
    excludes_experts: Mapping[str, Excludes] = MappingProxyType({})
    """Kinds of parts -> whether experts are plain in some of their projections, and not in all."""
    biases_experts: bool = True
    """Its routed experts may have a bias."""
    biases_later: bool = False
    """They have none in 0.23."""
    merged: Mapping[str, tuple[str, ...]] = MappingProxyType(MERGED)
    """Last name of a layer -> what it is merged of (`packed_modules_mapping`)."""
    quantizes_head: bool = False
    """The head of the vocabulary may be quantized like any linear layer."""

    def earlier_part(self, part: Part) -> Part:
        """Return a part as 0.23 builds it."""
        stored = part.stored
        if stored and self.gates_experts and part.has_one_output:
            part = part._replace(outputs=2 * part.outputs)
        if stored and self.biases_later and part.experts > 1:
            part = part._replace(bias=False)
        return part._replace(stored=self.earlier[stored]) if stored in self.earlier else part

    def format_of(self, path: str, *, is_expert: bool) -> Format | None:
        """Return the format of a linear layer of vLLM, or of its routed experts; None for plain."""
        both = (path, *paths(path, self.merged.get(path.rpartition(".")[2])))
        others = (formats for test, formats in self.chosen if any(map(test, both)))
        stored = next(others, (self.linear, self.experts or self.linear))
        stored = next((formats for test, formats in self.overrides if test(path)), stored)
        if self.listed is not None:
            stored = self._listed_formats(both, is_expert=is_expert)
        found = stored[is_expert]
        return None if found is None or any(map(self.excludes, both)) else found

    def splits(self, path: str, parts: tuple[str, ...]) -> bool:
        """Return whether some parts of a merged layer are excluded, and not all."""
        return len({self.excludes_part(one) for one in paths(path, parts)}) > 1

    def format_of_head(self, path: str) -> Format | None:
        """Return the format of the head of the vocabulary; None for plain."""
        return self.format_of(path, is_expert=False) if self.quantizes_head else None

    def _listed_formats(self, both: tuple[str, ...], *, is_expert: bool) -> Formats:
        # ModelOptMixedPrecisionConfig._resolve_quant_algo
        listed = self.listed or {}
        found = next((listed[one] for one in both if one in listed), None)
        if found is None and is_expert:  # that of any layer next to them
            parent = both[0].removesuffix(EXPERTS.rstrip(".")) + "."
            found = next((one for path, one in listed.items() if path.startswith(parent)), None)
        return found or (None, None)


class Unknown(Exception):  # noqa: N818  (an answer, not a failure)
    """What keeps the parameters of a checkpoint from being known."""


def paths(name: str, parts: tuple[str, ...] | None = None) -> Iterable[str]:
    """Return the paths in a checkpoint of one of vLLM's layers, which may be merged of several.

    parts: of what, where not as in most models.
    """
    stem, _, last = name.rpartition(".")
    return [f"{stem}.{one}" for one in parts or MERGED.get(last, (last,))]


def texts(listed: object) -> list[str]:
    """Return the entries of a list of modules, under the paths that vLLM has."""
    found = [one for one in listed if isinstance(one, str)] if isinstance(listed, list) else []
    if len(found) > MAX_ENTRIES:
        raise Unknown(f"more than {MAX_ENTRIES:,} modules are excluded from quantization")
    return [renamed(one) for one in found]


def renamed(path: str) -> str:
    """Return a path as vLLM has it."""
    for old, new in RENAMED:
        path = path.replace(old, new)
    return path


def exact(ignored: list[str]) -> Excludes:
    """Return a test for listed paths; experts are excluded by any path inside of them, too."""
    known, inside = frozenset(ignored), [one for one in ignored if "experts" in one]
    return lambda path: path in known or ("experts" in path and any(path in one for one in inside))


def unlisted(modules: list[str]) -> Excludes:
    """Return a test for paths that contain no entry, if there are any; experts contain all."""
    # is_layer_gptq_quantized, 0.23 and 0.33
    known = tuple(modules) or ("",)
    return lambda path: (
        not path.endswith(".experts")
        and not any(entry in one for one in paths(path) for entry in known)
    )


def wildcards(ignored: list[str]) -> Excludes:
    """Return a test for paths that contain an entry, or match its wildcards."""
    if not ignored:
        return lambda _path: False
    patterns = [translate(one) if WILD.search(one) else f".*{re.escape(one)}" for one in ignored]
    found = re.compile("|".join(f"(?:{one})" for one in patterns))
    return lambda path: found.match(path) is not None


def expressions(ignored: list[str], built: Callable[[str], str] = str) -> Excludes:
    """Return a test for listed paths, and for regular expressions, which begin with "re:".

    built: the path of a module in vLLM, which expressions are tested with.
    """
    known = frozenset(ignored)
    patterns = [one.removeprefix("re:") for one in ignored if one.startswith("re:")]
    if any(not SIMPLE.fullmatch(one) or sum(map(one.count, "*+")) > MAX_STARS for one in patterns):
        raise Unknown("an expression that excludes modules is not a simple one")
    found = [re.compile(one) for one in patterns]
    return lambda path: path in known or any(one.match(built(path)) for one in found)
