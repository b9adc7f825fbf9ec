"""The parameters of a model, as one rank keeps them: shapes, shards, stored formats, bytes.

Source: the `create_weights` of vLLM's linear layers, embeddings, experts and quantization methods.
Kernels of routed experts round sizes up (`Split.paddings`); what others repack keeps its size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from math import ceil
from typing import NamedTuple

from workbench.core.arithmetic import round_up
from workbench.core.described import SplitLayer
from workbench.core.dtypes import FLOAT_BYTES
from workbench.core.formats import Format
from workbench.core.images import Image
from workbench.core.ranks import Split

COLUMN, ROW, WHOLE = "outputs", "inputs", "nothing"
"""What of a layer the ranks divide among themselves."""
EARLIER, LATER = "earlier", "later"
"""Kinds of parts that versions until 0.23 build and later ones do not, and the reverse."""
MROPE = "mrope"
"""Kind of a table of positions of images."""
LENGTH, PER_DRAFT = "per token of the longest request", "per drafted token"
"""Kinds of parts of which there are as many: rows of a table, heads of a drafter."""
FOR_HEADS = "for heads that draft"
"""Kind of an embedding that a pipeline stage has for them alone."""
NARROW, WIDE = "router in the model's dtype", "router in 32 bits"
"""Kinds of a router that has 32 bits where the device has no kernel for it."""
EXACT, ROUNDED = "table for FlashInfer", "table for other kernels"
"""Kinds of a table of positions that has 32 bits where FlashInfer's kernel reads it, on CUDA."""
STEP, DRAFTED = "per token of a step", "per token of a request's step, where any are drafted"
"""The same: rows of a buffer, and numbers that 0.23 keeps for every Mamba-2 layer."""
CHUNKED = "padding of chunks that ranks share"
"""Kind of the rows that pad keys and values, where a rank has several chunks of a projection."""
STREAMS, MIXING = "per token of a step, where a drafter may read them", "reads residual streams"
"""The same: the streams of DeepSeek-V4, `_mtp_hidden_buffer`; kind of what mixes or joins them."""
MTP_PART, DSPARK_PART = "mtp", "dspark"
OF_TARGET = frozenset({MTP_PART, DSPARK_PART})
"""What drafts and is in the target's checkpoint."""
EMBEDDING, TABLE = "embed_tokens", "cos_sin_cache"
"""Names of parts: the vocabulary of the input, and a table of positions, maybe with more words."""
EXPERT_PLACE = 4
"""Bytes that say which rank has an expert, where ranks have whole ones."""
Copies = Mapping[str, int]


class Part(NamedTuple):
    """One linear layer, or another tensor, of the whole model."""

    name: str
    outputs: tuple[tuple[int, int], ...]
    """Merged outputs, each (units, elements of a unit); ranks get whole units, at least one."""
    inputs: int = 1
    shard: str = WHOLE
    bias: bool = False
    experts: int = 1
    """Weights in one tensor, with scales of each merged output."""
    dtype: str | None = None
    """None is the model's."""
    is_linear: bool = False
    """A quantization method may store it in another format."""
    stored: Format | None = None
    multiple: int = 1
    """What every rank's share of the divided size is rounded up to, for the kernels."""
    kind: str = ""
    """A key of `RuleSet.weight_copies`."""
    repeated: str = ""
    """What `Split.repeated` calls it, if ranks may have it whole."""
    evenly: int = 0
    """A rank has it whole where this number is not a multiple of the ranks."""
    least: int = 0
    """Of the divided size, what the ranks of one engine have at least, each a share of experts."""
    merges: int = 0
    """Its outputs are one where this number is not a multiple of the ranks."""
    runs_padded: bool = False
    """Plain experts with an activation of kernels that round sizes up."""

    @property
    def has_one_output(self) -> bool:
        """Return whether it is what routed experts without a gate have before their activation."""
        return self.experts > 1 and self.shard == COLUMN and len(self.outputs) == 1

    def ranks(self, split: Split) -> int:
        """Return among how many ranks it is divided."""
        if self.experts > 1:
            return 1 if split.keeps_experts else split.of_experts
        return 1 if self.repeated in split.repeated or self.evenly % split.ranks else split.ranks

    def fits(self, split: Split) -> bool:
        """Return whether so many ranks can divide it: evenly, or with copies of whole units."""
        ranks = self.ranks(split)
        if self.shard == ROW:
            return self.inputs % ranks == 0
        return self.shard == WHOLE or all(not (n % ranks and ranks % n) for n, _ in self.outputs)

    def size(self, split: Split, dtype: str) -> int:
        """Return the bytes of one layer on the first rank."""
        outputs, inputs = self.share(split)
        element = FLOAT_BYTES[self.dtype or dtype]
        kept = self.stored if self.experts == 1 or not split.plain_experts else None
        stored = kept or Format(bits=8 * element)
        if self.experts > 1:
            stored = stored.of_experts(inputs if self.shard == ROW else outputs[0], split.marlin)
        merged = [self.merged(split)] if self.experts == 1 else [[one] for one in outputs]
        scaled = self.inputs if stored.repeats_scales else inputs
        found = sum(stored.size(one, inputs, scaled) for one in merged)
        found += stored.fixed_bytes + stored.input_bytes * inputs
        found += self.bias * sum(outputs) * element
        if self.experts == 1 or not split.keeps_experts:
            return self.experts * found
        # the first ranks have one more; the map of experts is counted with the first weight
        places = self.experts * EXPERT_PLACE if self.shard == COLUMN else 0
        return ceil(self.experts / split.of_experts) * found + places

    def share(self, split: Split) -> tuple[list[int], int]:
        """Return the merged outputs and the inputs that a rank has."""
        ranks, (inner, hidden) = self.ranks(split), self._multiples(split)
        least = 0 if split.keeps_experts or split.ranks == 1 else self.least * split.ranks
        if self.shard == COLUMN:
            units = [(max(count, least), size) for count, size in self.outputs]
            outputs = [max(1, count // ranks) * size for count, size in units]
            return [round_up(one, inner) for one in outputs], round_up(self.inputs, hidden)
        outputs = [round_up(units * size, hidden) for units, size in self.outputs]
        if self.shard != ROW:
            return outputs, self.inputs
        return outputs, round_up(max(self.inputs, least) // ranks, inner)

    def merged(self, split: Split) -> list[int]:
        """Return the outputs of a rank as a linear layer merges them, which may be all in one."""
        outputs, _inputs = self.share(split)
        return [sum(outputs)] if self.merges % split.ranks else outputs

    def _multiples(self, split: Split) -> tuple[int, int]:
        """Return what the divided size and the other one are rounded up to."""
        for padding in split.paddings if self.experts > 1 else ():
            is_run = padding.takes_bias or not self.bias
            if is_run and padding.rounds(self.stored) and (self.stored or self.runs_padded):
                return max(self.multiple, padding.inner), padding.hidden
        return self.multiple, 1


FIRST, LAST, EVERY, TOWER, EVERY_TOWER = -1, 2**30, -2, -3, -4
"""Places before and after the layers, on every pipeline stage, and of the tower for images: on one,
or on every one in versions with more than one of `TOWERS`; the last is on every one in all."""
Place = int | frozenset[int]
"""The number of a layer or one of the above; or layers that have one in common."""
TOWERS = "towers"
"""Key of `RuleSet.weight_copies`: on how many stages a tower is; 0 where none is kept."""


class Weights(NamedTuple):
    """All parameters of a model and its tables of positions, or why they are not known."""

    parts: tuple[tuple[Part, int], ...] = ()
    """Each with the number of layers that have one like it."""
    unknown: str = ""
    """What is missing for the sum; empty if nothing is."""
    vocabulary: int = 0
    """Rows of the embedding, padded: each token's logits."""
    experts_per_token: int = 0
    has_tower: bool = False
    """It sees images, which vLLM profiles as well."""
    image: Image | None = None
    """What of them; None where that does not follow from config.json."""
    shared: tuple[Part, ...] = ()
    """Of a drafter: the vocabularies that it may have in common with its target."""
    places: tuple[tuple[Place, ...], ...] = ()
    """Of every part: where one like it is."""
    has_vocabulary: bool = True
    """Its checkpoint may hold one; False where the names of its tensors have none."""
    is_tied: bool = False
    """Its head is the embedding of the input."""
    expert_score: str = ""
    """The function that weighs experts that are in one group, as config.json names it."""
    sketch: tuple[Part, ...] = ()
    """Where no parts are known: linear layers that any decoder of such attention has."""
    split_layers: tuple[SplitLayer, ...] = ()
    """The first, and the first that is not named as a whole, if there are any."""
    checkpoint_bytes: int = 0
    """Of all tensors in the files next to config.json; 0 where there are none."""

    @property
    def known_parts(self) -> tuple[Part, ...]:
        """Return every part once; those of a sketch where no parts are known."""
        return tuple(part for part, _ in self.parts) or self.sketch

    @property
    def expert_parts(self) -> tuple[Part, ...]:
        """Return the parts that routed experts have."""
        return tuple(part for part in self.known_parts if part.experts > 1)

    @property
    def divided_singly(self) -> tuple[Part, ...]:
        """Return the parts, except those of towers, whose every element ranks divide alone."""
        return tuple(
            part
            for (part, _), places in zip(self.parts, self.places, strict=True)
            if not {TOWER, EVERY_TOWER} & set(places)
            if all(elements == 1 for _units, elements in part.outputs)
        )

    @property
    def may_have_experts(self) -> bool:
        """Return whether some layer has routed experts, or nothing is known of the layers."""
        return bool(not self.parts or self.expert_parts)

    def size(
        self, split: Split, dtype: str, copies: Copies, layers: range | None = None
    ) -> int | None:
        """Return the bytes on one rank; None where they are not known, or ranks cannot divide.

        Where no parts are known it is a rank's share of the whole checkpoint.

        copies: of kinds of parts, where a version does not have one of each. layers: of a pipeline
        stage, that of the last one open; None for all.
        """
        return _size(self, split, dtype, tuple(copies.items()), layers)

    def counts(self, layers: range | None, towers: int) -> Iterator[tuple[Part, int]]:
        """Yield every part, and how many of it a pipeline stage with these layers has."""
        if layers is None:
            yield from self.parts if towers else self._without_towers()
            return
        first = layers.start == 0
        held = {FIRST: first, EVERY: True, EVERY_TOWER: towers > 0, TOWER: towers > int(not first)}

        def is_held(place: Place) -> bool:
            if isinstance(place, frozenset):
                return any(number in layers for number in place)
            return bool(held.get(place, place in layers))

        for (part, _), places in zip(self.parts, self.places, strict=True):
            yield part, sum(map(is_held, places))

    def _without_towers(self) -> Iterator[tuple[Part, int]]:
        everywhere = self.places or ((),) * len(self.parts)  # none are known of some drafters
        for (part, count), places in zip(self.parts, everywhere, strict=True):
            yield part, count - sum(place in {TOWER, EVERY_TOWER} for place in places)

    def undivided(self, split: Split, copies: Copies) -> Part | None:
        """Return the first part of a version that so many ranks cannot divide, else None."""
        built = (part for part, _ in self.parts if copies.get(part.kind, 1))
        return next((part for part in built if not part.fits(self.split_of(part, split))), None)

    def split_of(self, part: Part, split: Split) -> Split:
        """Return among how many ranks a part is divided: one where towers are whole."""
        has_places = split.whole_towers and self.places  # none are known of some drafters
        pairs = zip(self.parts, self.places, strict=True) if has_places else ()
        towers = (one for (one, _), places in pairs if {TOWER, EVERY_TOWER} & set(places))
        return split._replace(ranks=1) if part in towers else split


class UnreadWeights:
    """Weights that are read on first use, since most answers need none."""

    def __init__(self, read: Callable[[str], Weights]) -> None:
        self._read = read
        self._found: dict[str, Weights] = {}

    def of(self, part: str = "") -> Weights:
        """Return the weights of a checkpoint, or of one part; they are read once.

        part: one of `OF_TARGET`, or the class of the head that a drafter's checkpoint is loaded as.
        """
        if part not in self._found:
            self._found[part] = self._read(part)
        return self._found[part]


def _nothing(_part: str) -> Weights:
    return Weights(unknown="nothing describes them")


NO_WEIGHTS = UnreadWeights(_nothing)


@lru_cache(maxsize=256)
def _size(
    weights: Weights,
    split: Split,
    dtype: str,
    listed: tuple[tuple[str, int], ...],
    layers: range | None,
) -> int | None:
    if weights.unknown:
        return ceil(weights.checkpoint_bytes / split.ranks) or None
    copies = dict(listed)
    if weights.undivided(split, copies) is not None:
        return None
    counts = weights.counts(layers, copies.get(TOWERS, 1))
    return sum(
        count * copies.get(part.kind, 1) * part.size(weights.split_of(part, split), dtype)
        for part, count in counts
    )
