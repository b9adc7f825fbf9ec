"""Requests with their blocks, and where each of their tokens lands when a mistake is made."""

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

import numpy as np

from workbench.kernels.block_table.groups import TableGroup
from workbench.kernels.block_table.reference import NULL_BLOCK

NO_BLOCK = -1
"""An entry of a table that no kernel has written."""
PAST_TABLE = -2
"""An entry past the end of a table's tensor."""


class Place(StrEnum):
    """Where a wrong slot is, in words. PAST_POOL and PAST_TABLE are out of a tensor's bounds."""

    OWN_SLOT = "its own slot"
    OWN_BLOCKS = "its own request, another slot"
    OTHER_BLOCK = "a block of another request or group"
    FREE_BLOCK = "a free block"
    NULL_BLOCK = "the null block"
    PAST_POOL = "memory past the end of the pool"
    NO_ENTRY = "no slot: the table entry was never written"
    PAST_TABLE = "no slot: the entry is read past the end of the table"


OUT_OF_BOUNDS = frozenset({Place.PAST_POOL, Place.PAST_TABLE})


@dataclass(frozen=True)
class Scene:
    """Requests with their blocks: block_ids[request][group] lists manager blocks.

    tokens[request] are stored, except those whose block is the null block: they were dropped.
    Block ids are one pool's of num_blocks, the null block included; no two rows share any.
    is_sample_pool: the pool's size is not known, and num_blocks is a sample.
    """

    groups: tuple[TableGroup, ...]
    tokens: tuple[int, ...]
    block_ids: tuple[tuple[tuple[int, ...], ...], ...]
    num_blocks: int
    is_sample_pool: bool = False

    @cached_property
    def owners(self) -> dict[int, tuple[int, int]]:
        """Return manager block -> (request, group) that owns it."""
        return {
            block: (request, group)
            for request, per_group in enumerate(self.block_ids)
            for group, ids in enumerate(per_group)
            for block in ids
            if block != NULL_BLOCK
        }


@dataclass(frozen=True, slots=True)
class Landing:
    """One token: where it belongs and where the mistake puts it, or looks for it.

    Slots and manager blocks; `wrong_slot` and `wrong_block` are negative where `place` says
    that there is none. `owner` is the (request, group) whose block it hits, None elsewhere.
    """

    group: int
    request: int
    position: int
    slot: int
    wrong_slot: int
    block: int
    wrong_block: int
    owner: tuple[int, int] | None
    place: Place

    @property
    def is_harmed(self) -> bool:
        """Return whether the token is anywhere but in its own slot."""
        return self.place != Place.OWN_SLOT

    @property
    def hits_other(self) -> bool:
        """Return whether it is in a block of another request or another group."""
        return self.place == Place.OTHER_BLOCK


@dataclass(frozen=True, slots=True)
class Damage:
    """What a mistake does to every token of a scene."""

    title: str
    mistake: str
    landings: tuple[Landing, ...]
    num_blocks: int
    is_sample_pool: bool = False
    """As in the scene, like `num_blocks`."""
    entries_past_tables: int = 0
    """Entries that the wrong launch reads or writes past the end of a block table's tensor."""
    needs: str = ""
    """What the groups must have for it to show."""
    tokens: tuple[int, ...] = ()
    """Of every request of the scene; each has a landing in every group whose block is kept."""
    groups: int = 0
    """Of the scene."""

    @property
    def harmed(self) -> tuple[Landing, ...]:
        """Return the tokens that are not in their own slot."""
        return tuple(landing for landing in self.landings if landing.is_harmed)

    @property
    def hits_others(self) -> tuple[Landing, ...]:
        """Return the tokens that are in a block of another request or group."""
        return tuple(landing for landing in self.landings if landing.hits_other)

    @property
    def out_of_bounds(self) -> int:
        """Return the tokens whose slot, or whose table entry, is out of its tensor's bounds."""
        return sum(landing.place in OUT_OF_BOUNDS for landing in self.landings)


def damage_of(
    scene: Scene,
    title: str,
    mistake: str,
    right: np.ndarray,
    wrong: np.ndarray,
    entries_past_tables: int = 0,
    needs: str = "",
) -> Damage:
    """Compare slots [group, token], in the order of the requests, as they should be and are."""
    tokens = [(request, p) for request, n in enumerate(scene.tokens) for p in range(n)]
    landings = tuple(
        landing
        for g in range(len(scene.groups))
        for token, slot, found in zip(tokens, right[g].tolist(), wrong[g].tolist(), strict=False)
        if (landing := _landing(scene, g, token, slot, found)).block != NULL_BLOCK
    )
    return Damage(
        title=title,
        mistake=mistake,
        landings=landings,
        num_blocks=scene.num_blocks,
        is_sample_pool=scene.is_sample_pool,
        entries_past_tables=entries_past_tables,
        needs=needs,
        tokens=scene.tokens,
        groups=len(scene.groups),
    )


def _landing(scene: Scene, group: int, token: tuple[int, int], slot: int, found: int) -> Landing:
    size = scene.groups[group].block_size
    block = found // size if found >= 0 else found
    owner, (request, position) = scene.owners.get(block), token
    place = Place.OWN_SLOT if found == slot else _place(scene, block, owner, (request, group))
    return Landing(
        group=group,
        request=request,
        position=position,
        slot=slot,
        wrong_slot=found,
        block=slot // size,
        wrong_block=block,
        owner=owner,
        place=place,
    )


def _place(scene: Scene, block: int, owner: tuple[int, int] | None, own: tuple[int, int]) -> Place:
    """Return where a wrong slot in manager block `block` is; `own`: the token's request, group."""
    special = {
        NO_BLOCK: Place.NO_ENTRY,
        PAST_TABLE: Place.PAST_TABLE,
        NULL_BLOCK: Place.NULL_BLOCK,
    }
    if block in special:
        return special[block]
    if block >= scene.num_blocks:
        return Place.PAST_POOL
    if owner is None:
        return Place.FREE_BLOCK
    return Place.OWN_BLOCKS if owner == own else Place.OTHER_BLOCK
