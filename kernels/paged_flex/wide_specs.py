"""The kernels with the tiles of devices whose matrix instructions read shared memory."""

from workbench.kernels.paged_flex.mask_kernel import soft_cap_score
from workbench.kernels.paged_flex.settings import FAST
from workbench.kernels.paged_flex.specs import attend_spec

INSPECTED = (
    attend_spec("prefill, page 64", FAST),
    attend_spec("prefill, page 16", FAST, block_size=16),
    attend_spec("prefill, page 528, bfloat16", FAST, block_size=528, dtype="bfloat16"),
    attend_spec("prefill, head 256", FAST, head_dim=256),
    attend_spec(
        "prefill, documents, soft cap",
        FAST,
        mask="document",
        param=1024,
        score=soft_cap_score,
        score_param=30.0,
    ),
    attend_spec("prefill, window", FAST, mask="window", param=1024),
    attend_spec("decode, page 16", FAST, decode=True, block_size=16),
)
"""Specialisations for sm_90 and sm_100."""
