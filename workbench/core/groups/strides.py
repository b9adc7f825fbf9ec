"""What the bytes from one block to the next are a multiple of where all groups share blocks (0.33).

Source: `customize_attention_spec` and `KVCacheSpec.get_block_stride_alignment`.
"""

from collections.abc import Iterable
from math import gcd

from workbench.core.block_sizes import BlockSize
from workbench.core.dtypes import FLOAT_BYTES
from workbench.core.groups.layer_classes import AS_THE_MODEL
from workbench.core.plan import Plan
from workbench.core.platforms import is_sm10x


def largest_fixed(sizes: Iterable[BlockSize]) -> int | None:
    """Return the largest kernel block of a backend that takes no multiples, in tokens."""
    found = list(sizes)
    fixed = [size for size in found if isinstance(size, int)]
    return max(fixed) if fixed and len(fixed) == len(found) else None


def fixed_kernel_block(
    plan: Plan, reader: str, sizes: Iterable[BlockSize], dtype: str
) -> int | None:
    """Return the kernel block that a backend keeps whole, in tokens; None where it names none."""
    rules = plan.rules.groups
    if _reads_pages(plan, reader, dtype):
        return rules.quantized_page_tokens[reader]
    return largest_fixed(sizes) if rules.one_allocation else None


def stride_bytes(
    plan: Plan, reader: str, dtype: str, kernel: int | None, block: int, page: int
) -> int:
    """Return the bytes for a page of `block` tokens whose kernel block is `kernel` or smaller."""
    rows = plan.rules.groups.stride_rows.get(reader)
    if rows is not None and not _reads_pages(plan, reader, dtype):
        return page // block * rows
    return kernel_block_bytes(kernel, block, page)


def kernel_block_bytes(kernel: int | None, block: int, page: int) -> int:
    """Return the bytes of a kernel block of a page that has several; 1 where it has one."""
    tokens = block if kernel is None else gcd(kernel, block)
    return 1 if tokens == block else page * tokens // block


def _reads_pages(plan: Plan, reader: str, dtype: str) -> bool:
    is_plain = dtype in {AS_THE_MODEL, *FLOAT_BYTES}
    pages = plan.rules.groups.quantized_page_tokens
    return reader in pages and not is_plain and not is_sm10x(plan)
