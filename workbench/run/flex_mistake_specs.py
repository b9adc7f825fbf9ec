"""A tile that needs more shared memory than most devices have, for an inspector to compile."""

from __future__ import annotations

from workbench.kernels.paged_flex.settings import Settings, Tile
from workbench.kernels.paged_flex.specs import attend_spec

TOO_LARGE = Settings(Tile(128, 128, 8), as_given=True)
HEAD_SIZE = 256

INSPECTED = (attend_spec("128 x 128, head 256", TOO_LARGE, head_dim=HEAD_SIZE, group=1),)
