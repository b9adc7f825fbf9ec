"""What a tower for images is profiled with."""

from __future__ import annotations

from typing import NamedTuple


class Image(NamedTuple):
    """The largest image that a tower gets while vLLM profiles it."""

    tokens: int
    """That the decoder sees of it."""
    patches: int
    pixels: int
    """Numbers of one patch."""
    peaks: tuple[tuple[int, int], ...]
    """Numbers of one patch where a layer has most: those on every rank, and those of which a rank
    has its share."""
    outputs: int
    """Numbers of one token."""
    levels: int = 0
    """Layers of the decoder that get more of the tower, each numbers for every token."""
    frames: int = 1
    """The most images that make one video, as far as a request is long enough."""
    before: int = 0
    """Tokens of an image in the request that has the longest video."""
    masks_pairs: bool = False
    """0.23 has a mask of every two patches of a step."""
    piece: int = 0
    """Patches that are seen together, a tile or a frame; 0 for those of an image."""
    piece_bytes: int = 0
    """What the class takes a piece to need, if it cuts what is too much for the device: it sees as
    many at a time as fit a tenth of its memory, but one at least."""
    waiting: int = 0
    """Numbers of one patch that is not seen at present."""
    video: Image | None = None
    """What a video is instead, where its images are others."""
