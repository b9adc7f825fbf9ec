"""The bytes of one token as they are shown: of a page, or as the alignment counts them."""

from workbench.core.plan import Plan


def token_bytes(plan: Plan) -> int | None:
    """Return the bytes of one token, or of an entry, in one layer, None without attention.

    That which the alignment counts is of one head size, and of a packed dtype as if it were not:
    without states nothing is aligned, and the page has what a layer keeps.
    """
    if plan.is_hybrid or keeps_entries(plan):
        return plan.attention_bytes_per_token
    return page_token_bytes(plan)


def page_token_bytes(plan: Plan) -> int | None:
    """Return the bytes of one token in the attention page, None without attention.

    Not always what the alignment counts: fp8_ds_mla packs 656 bytes where that counts 576.
    """
    page_bytes = plan.attention_page_size_bytes
    return None if page_bytes is None else page_bytes // plan.block_size


def keeps_entries(plan: Plan) -> bool:
    """Return whether what attention keeps is of several tokens, so that no token has bytes."""
    attention = plan.model.attention
    return attention is not None and attention.is_compressed
