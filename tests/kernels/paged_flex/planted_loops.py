"""A kernel with a mistake that costs half its speed and no result: the gate must see it."""

import importlib.util
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from workbench.kernels.kernel_spec import PublicCall
from workbench.kernels.paged_flex import attend_kernel, launches
from workbench.kernels.paged_flex.calls import attention_call
from workbench.kernels.paged_flex.settings import FAST

CARRIED = "b_blocks = blocks_of(i_next, i_last, pages.row, seq_len, True, sizes, walk)"
IN_ITS_OWN_TURN = CARRIED.replace("i_next", "i_tile")
POINTERS = replace(FAST, path="pointers")
THREE_STAGES = replace(POINTERS, prefill=replace(FAST.prefill, num_stages=3))


def waiting_kernel():
    """Return attend_kernel with the table lookup of a tile in the tile's own turn."""
    folder = Path(attend_kernel.__file__).parent
    place = Path(tempfile.mkdtemp())
    tiles = (folder / "tile_kernel.py").read_text(encoding="utf-8")
    assert CARRIED in tiles
    # before the address is computed, and not after it
    before = "            boxes = no_boxes()\n"
    assert before in tiles
    tiles = tiles.replace(CARRIED, "").replace(before, f"            {IN_ITS_OWN_TURN}\n{before}")
    attend = (folder / "attend_kernel.py").read_text(encoding="utf-8")
    attend = attend.replace("workbench.kernels.paged_flex.tile_kernel", "waiting_tile_kernel")
    for name, text in (("waiting_tile_kernel", tiles), ("waiting_attend_kernel", attend)):
        file = place / f"{name}.py"
        file.write_text(text, encoding="utf-8")
        found = importlib.util.spec_from_file_location(name, file)
        module = importlib.util.module_from_spec(found)
        sys.modules[name] = module
        found.loader.exec_module(module)
    return sys.modules["waiting_attend_kernel"].attend_kernel


def launch_waiting():
    """Call paged_attention with the kernel that waits."""
    shipped, launches.attend_kernel = launches.attend_kernel, waiting_kernel()
    try:
        attention_call("", THREE_STAGES).run()
    finally:
        launches.attend_kernel = shipped


INSPECTED = (
    attention_call("three stages", THREE_STAGES),
    attention_call("two stages", replace(POINTERS, prefill=replace(FAST.prefill, num_stages=2))),
    PublicCall("lookup in its own turn, three stages", launch_waiting),
)
