"""How a figure shows itself where no script runs."""

from base64 import b64encode
from typing import Any

from workbench.views.html import Html, tag
from workbench.views.static.picture import picture
from workbench.views.static.words import alternative_text


def static_bundle(figure: Any) -> dict[str, str]:
    """Return the picture by its types: SVG, and an image with alternative text as HTML.

    As data of an image it survives a program that removes scripts, styles and SVG from HTML.
    """
    drawn = picture(figure)
    return {"image/svg+xml": str(drawn), "text/html": str(image(drawn, alternative_text(figure)))}


def image(drawn: str, words: str) -> Html:
    """Return an SVG as an image element that holds it."""
    data = b64encode(drawn.encode()).decode()
    source = f"data:image/svg+xml;base64,{data}"
    return tag("img", src=source, alt=words, style="max-width: 100%; height: auto")
