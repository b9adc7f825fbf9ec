"""The stride rewrite of hybrid models: keys and values of a block side by side (#37236).

Attention and SSM layers share tensors, so every byte of block b must be in page b. A cache with
K and V outermost breaks that; the rewrite keeps its shape and changes two strides.
"""

from dataclasses import replace
from math import prod
from typing import Final

from workbench.core.layouts.error import layout_error
from workbench.core.layouts.layer_views import V1, V2
from workbench.core.layouts.view import View

REPORTED, REPORTED_THEN_GUESSED = "asked", "asked_then_guessed"  # words: ok
GUESSED, GUESSED_UNCHECKED, NEVER = "guessed", "guessed_unchecked", "never"

REWRITE_RULES: Final = (REPORTED, REPORTED_THEN_GUESSED, GUESSED, GUESSED_UNCHECKED)
"""What decides: the backend's block dimension, the shape (before #37236), or one after the other.
"""
ASSERTIONS: Final = {
    REPORTED_THEN_GUESSED: "Cannot determine layout for tensor of shape torch.Size({shape})",
    GUESSED: "Fail to determine whether the layout is (2, num_blocks, ...) or (num_blocks, 2, ...) "
    "for a tensor of shape torch.Size({shape})",
}
"""Rule -> vLLM's message where the first two dimensions are 2, so that the shape says nothing."""
# _update_hybrid_attention_mamba_layout (V1 runner) and _update_hybrid_attention_layout (V2).
RUNNER_RULES: Final = {V1: REPORTED, V2: REPORTED_THEN_GUESSED}
"""Model runner of 0.23 -> its rule."""


def interleaved(view: View) -> View:
    """Rewrite the view: K of block 0, V of block 0, K of block 1, ... whatever the shape means.

    The first two strides become (h, 2 h), h the elements of the other dimensions; the others stay.
    """
    # Only strides change, as in _update_hybrid_attention_mamba_layout: K and V of a block are then
    # in that block's page, which it shares with the states of other groups.
    # The unit is the kernel block: K0 V0 K1 V1 ..., as many pairs in a page as it has of them.
    hidden = prod(view.shape[2:])
    return replace(view, strides=(hidden, 2 * hidden, *view.strides[2:]))


def needs_rewrite(view: View, block_dim: int, rule: str) -> bool:
    """Return whether a hybrid's attention view is rewritten by `rule` (NEVER: no).

    Errors: LayoutError (vLLM: AssertionError) where the shape is ambiguous or a block dimension
    is deeper than the second.
    """
    if rule == NEVER:
        return False
    queries_backend = rule in {REPORTED, REPORTED_THEN_GUESSED}
    # (num_blocks, 2, ...): the blocks are outermost already.
    if queries_backend and block_dim == 0:
        return False
    if queries_backend and block_dim != 1:
        raise layout_error("block_dimension_too_deep", operands={"block_dim": block_dim})
    if rule == REPORTED:
        return True
    # Not K and V, so the first dimension counts blocks: nothing has to be rewritten.
    if view.shape[0] != 2:
        return False
    # Two kernel blocks look the same in either order: a guess crashes or, without the assertion,
    # corrupts the cache in silence. One manager block of two kernel blocks is such a case, too.
    # The V2 runner asserts this even where the backend has answered: two kernel blocks stop it.
    if view.shape[1] == 2 and rule in ASSERTIONS:
        raise layout_error(
            "ambiguous_shape",
            operands={"shape": view.shape},
            vllm_text=ASSERTIONS[rule].format(shape=list(view.shape)),
        )
    return True
