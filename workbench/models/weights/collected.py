"""What a model has of every part, and where: parts of layers in the formats of its checkpoint."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from workbench.core.described import SplitLayer
from workbench.core.formats import FLOAT, HALF, Format
from workbench.core.weights import EARLIER, LATER, Part, Place
from workbench.models.weights.merged import Merged
from workbench.models.weights.parts import whole
from workbench.models.weights.stored import Scheme


class Collected:
    """Parts of a model, in the formats of its checkpoint."""

    def __init__(self, scheme: Scheme, merged: Mapping[str, Merged] = MappingProxyType({})) -> None:
        self.scheme, self.merged = scheme, merged
        self.split_layers: dict[str, list[SplitLayer]] = {kind: [] for kind in merged}
        """See `Weights.split_layers`."""
        self.split_experts: dict[str, SplitLayer] = {}
        """The same of routed experts, the first of each kind."""
        self.places: dict[Part, list[tuple[Place, ...]]] = defaultdict(list)
        """Where each was added, once for every time."""

    @property
    def counts(self) -> tuple[tuple[Part, int], ...]:
        """Return every part and how many there are."""
        return tuple((part, len(times)) for part, times in self.places.items())

    def add(self, prefix: str, parts: Iterable[Part], *places: Place) -> None:
        """Count parts whose names begin with `prefix`; equal parts are one, whatever the name.

        places: the number of their layer, or where pipeline stages have them.
        """
        for part in parts:
            stored = self._format(f"{prefix}{part.name}", part)
            if stored and stored.is_integer and stored.scale_bytes == HALF and part.dtype:
                stored = stored._replace(scale_bytes=FLOAT)  # scales are in the layer's dtype
            padded = self.scheme.multiple if part.experts > 1 and stored else 1
            multiple = max(part.multiple, padded)
            has_bias = part.bias and self._has_bias(part, stored)
            changes = (stored, multiple, has_bias) != (part.stored, part.multiple, part.bias)
            kept = part
            if changes:  # few do
                kept = part._replace(stored=stored, multiple=multiple, bias=has_bias)
            found, earlier = [kept], self.scheme.earlier_part(kept)
            if earlier != kept and part.kind in {"", EARLIER}:
                later = [kept._replace(kind=LATER)] * (not part.kind)
                found = [earlier._replace(kind=EARLIER), *later]
            for end, scales in self.scheme.cache_scales.items():
                if part.name.endswith(end):
                    found += [
                        whole(part.name, n, dtype=dtype)._replace(kind=part.kind)
                        for n, dtype in scales
                    ]
            for one in found:
                self.places[one].append(places)

    def _has_bias(self, part: Part, stored: Format | None) -> bool:
        return part.experts == 1 or stored is None or self.scheme.biases_experts

    def _note_split(self, path: str) -> None:
        for kind, merged in self.merged.items():
            known, parts = self.split_layers[kind], merged.get(path.rpartition(".")[2])
            if parts and (not known or known[-1].is_named) and self.scheme.splits(path, parts):
                found = SplitLayer(path, is_named=self.scheme.excludes_part(path), kind=kind)
                if not known or not found.is_named:
                    known.append(found)

    def _format(self, path: str, part: Part) -> Format | None:
        if not part.is_linear:
            return part.stored
        is_expert = part.experts > 1
        for kind, splits in self.scheme.excludes_experts.items() if is_expert else ():
            inside = path.rpartition(".")[0]
            if kind not in self.split_experts and splits(inside):
                found = SplitLayer(inside, is_named=False, is_experts=True, kind=kind)
                self.split_experts[kind] = found
        if not is_expert:
            self._note_split(path)
        return self.scheme.format_of(
            path.rpartition(".")[0] if is_expert else path, is_expert=is_expert
        )
