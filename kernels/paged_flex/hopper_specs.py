"""The kernels with the one tile of bitwise mode on Hopper."""

from workbench.kernels.paged_flex.settings import BITWISE
from workbench.kernels.paged_flex.specs import attend_spec

INSPECTED = (
    attend_spec("bitwise, page 64", BITWISE),
    attend_spec("bitwise, page 16 in 528", BITWISE, block_size=16, ratio=33),
    attend_spec("bitwise, head 256", BITWISE, head_dim=256),
    attend_spec("bitwise, window", BITWISE, mask="window", param=1024),
    attend_spec("bitwise decode, page 16", BITWISE, decode=True, block_size=16),
)
"""Specialisations for sm_90."""
