"""The pages of a plan to scale, as SVG between plain text: it needs no script and no style.

The text is outside of the SVG, so that it does not shrink with the bars on a narrow page.
"""

from collections.abc import Iterable, Mapping

from workbench.core.plan import Plan
from workbench.views.html import Html, join, tag
from workbench.views.pages.number_steps import NumberStep, number_steps
from workbench.views.pages.parts import KV, LOOKS, PADDING, PagePart, page_parts
from workbench.views.palette import CURRENT
from workbench.views.static.show import image
from workbench.views.token_bytes import keeps_entries, page_token_bytes
from workbench.views.units import bytes_text, tokens_text

WIDTH, HEIGHT = 1000, 28
ACRONYMS = {"gdn": "GDN", "kda": "KDA"}
"""Kind of SSM layer -> what its papers call it, where that is not the same word."""
_NOTHING = Html()
MAX_RULES = 120
"""More kernel blocks than this are not ruled one by one: the lines would merge into a wash."""


def page_drawing(plan: Plan, longest: int = 0, *, as_images: bool = False) -> Html:
    """Return both pages, their parts, and the steps that make the block size, without the style.

    longest: bytes of the whole width, the larger page if not given. as_images: bars that survive
    where SVG is removed from HTML, as in notebooks that are not trusted; else inline, where
    `data-part` and `data-step` name what an element shows.
    """
    return tag(
        "figure",
        *_rows(plan, longest or longest_page(plan), as_images),
        tag("ol", *map(_step, number_steps(plan)), class_="wb-steps"),
        class_="wb-page",
        data_plan=plan.fingerprint,
    )


def other_page(title: str, other: Plan, longest: int) -> Html:
    """Return the pages of a plan that is not the present one. longest: see `page_drawing`."""
    caption = tag("figcaption", title)
    return tag("figure", caption, *_rows(other, longest), class_="wb-page wb-other")


def longest_page(plan: Plan) -> int:
    """Return the bytes of the larger page."""
    return max(plan.attention_page_size_bytes or 0, plan.final_mamba_page_size_bytes or 0, 1)


def _rows(plan: Plan, longest: int, as_images: bool = False) -> Iterable[Html]:
    """Yield the page of a state, and that of keys and values. longest: bytes of a whole width."""
    parts = page_parts(plan)
    state = {name: part for name, part in parts.items() if name != KV}
    keys = {KV: parts[KV]} if KV in parts else {}
    if state:
        yield _row(_state_title(plan), state, plan, longest, as_images)
    if keys:
        title, note = f"KV of {tokens_text(plan.block_size)}", _kernel_note(plan)
        yield _row(title, keys, plan, longest, as_images, note)


def _state_title(plan: Plan) -> str:
    kind = plan.model.state.kind if plan.model.state else ""
    return f"State of one {ACRONYMS.get(kind, kind.replace('_', ' '))} layer"


def _row(
    title: str,
    parts: Mapping[str, PagePart],
    plan: Plan,
    longest: int,
    as_images: bool,
    note: Html = _NOTHING,
) -> Html:
    """Return one page: its title and size, its bar to scale, its parts in words, and a note."""
    size = bytes_text(sum(part.size_bytes for part in parts.values()))
    named = "; ".join(f"{part.label}: {part.words}" for part in parts.values())
    words = f"{title}: {size}. {named}"
    bar = _bar(parts, plan, WIDTH / longest, words, WIDTH if as_images else "100%")
    return tag(
        "div",
        tag("div", tag("b", title), ": ", size, class_="wb-page-title"),
        image(bar, words) if as_images else bar,
        tag("ul", *(_legend(name, part) for name, part in parts.items()), note, class_="wb-legend"),
    )


def _bar(
    parts: Mapping[str, PagePart], plan: Plan, scale: float, words: str, width: int | str
) -> Html:
    start, drawn = 0, []
    for name, part in parts.items():
        drawn.append(_rectangle(name, start * scale, part.size_bytes * scale, plan))
        start += part.size_bytes
    lines = _rules(plan, scale) if KV in parts else Html()
    return tag(
        "svg",
        tag("title", words),
        _hatching(plan) if PADDING in parts else "",
        *drawn,
        lines,
        _state_end(plan, scale),
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        width=width,
        height=HEIGHT,
        preserveAspectRatio="none",
        role="img",
        aria_label=words,
    )


def _rectangle(name: str, x: float, width: float, plan: Plan) -> Html:
    fill = f"url(#{_hatch_name(plan)})" if name == PADDING else LOOKS[name].colour
    place = {"x": _number(x), "y": 2, "width": _number(width), "height": HEIGHT - 4}
    return tag("rect", **place, fill=fill, data_part=name)


def _hatch_name(plan: Plan) -> str:
    return f"wb-hatch-{plan.fingerprint}"


def _hatching(plan: Plan) -> Html:
    """Return the pattern of padding, so that it is not known by its colour alone."""
    colour = LOOKS[PADDING].colour
    back = tag("rect", width=8, height=8, fill=colour, fill_opacity=0.25)
    stripe = tag("path", d="M0 8L8 0", stroke=colour, stroke_width=2)
    look = {"width": 8, "height": 8, "patternUnits": "userSpaceOnUse"}
    return tag("defs", tag("pattern", back, stripe, id=_hatch_name(plan), **look))


def _rules(plan: Plan, scale: float) -> Html:
    """Return lines between the kernel blocks of the page of keys and values."""
    blocks = plan.kernel_blocks_per_block or 1
    width = (plan.attention_page_size_bytes or 0) * scale / blocks
    count = blocks if blocks <= MAX_RULES else 1
    places = (width * number for number in range(1, count))
    return _lines(places, 2, HEIGHT - 2, stroke="#ffffff", stroke_opacity=0.6)


def _state_end(plan: Plan, scale: float) -> Html:
    """Return a dotted line where the state ends without its padding."""
    own = plan.mamba_page_size_bytes if plan.attention_page_size_bytes else None
    if own is None:
        return Html()
    return _lines([own * scale], 0, HEIGHT, stroke=CURRENT, stroke_dasharray="3 2", stroke_width=2)


def _lines(places: Iterable[float], top: int, bottom: int, **look: object) -> Html:
    path = "".join(f"M{_number(x)} {top}V{bottom}" for x in places)
    return tag("path", d=path, vector_effect="non-scaling-stroke", **look) if path else Html()


def _legend(name: str, part: PagePart) -> Html:
    sign = "▨" if name == PADDING else "■"
    mark = tag("span", sign, style=f"color: {LOOKS[name].colour}", aria_hidden=True)
    return tag("li", mark, f" {part.label}: {part.words}", data_part=name)


def _kernel_note(plan: Plan) -> Html:
    """Return what the lines in the page of keys and values mean, and one token's bytes."""
    token = page_token_bytes(plan)
    if token is None:
        return Html()
    ratio, size = plan.kernel_blocks_per_block, plan.kernel_block_size
    blocks = f"{ratio:,} kernel block{'s' * (ratio > 1)} of {size:,} tokens. " if ratio else ""
    one = "" if keeps_entries(plan) else f"One token: {bytes_text(token)} in one layer."
    return tag("li", f"{blocks}{one}", class_="wb-faint")


def _step(step: NumberStep) -> Html:
    words = join(tag("b", step.title), ": ", step.text)
    return tag("li", words, data_step=step.number, data_parts=" ".join(step.parts))


def _number(value: float) -> str:
    return f"{value:.3f}".rstrip("0").rstrip(".")
