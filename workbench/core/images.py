"""What a tower for images is profiled with."""

from typing import NamedTuple


class Image(NamedTuple):
    """The largest image that a tower gets while vLLM profiles it."""

    tokens: int
    """That the decoder sees of it."""
    patches: int
    pixels: int
    """Numbers of one patch."""
    whole: int
    """Numbers of one patch that every rank has at the peak."""
    divided: int
    """The same, of which a rank has its share."""
    outputs: int
    """Numbers of one token."""
    levels: int
    """Layers of the decoder that get more of the tower, each numbers for every token."""
    frames: int
    """The most images that make one video, as far as a request is long enough."""
