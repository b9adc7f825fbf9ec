"""The scenario as chips: what most people set, what differs from the default, and all the rest."""

import json
from collections.abc import Callable, Mapping
from itertools import chain
from typing import Any, NamedTuple

from workbench.core.errors import cut
from workbench.core.model import Model
from workbench.core.ranks import SHORT
from workbench.scenario import FIELDS, Scenario
from workbench.scenario.field import Field
from workbench.scenario.fields import SECTIONS
from workbench.views.door.buttons import opening, toolbar
from workbench.views.html import Html, tag
from workbench.views.settings import setting_text

Legal = Callable[[str, tuple[Any, ...]], tuple[Any, ...]]
"""(field, its candidates) -> those that vLLM accepts."""

ALL, LENGTH = "all", "length"
LENGTHS = (1024, 2048, 4096, 8192, 16_384, 32_768, 65_536, 131_072, 262_144)
LENGTH_HELP = (
    "Prompt and output of one request, in tokens: 32K, 8,000. The number of requests that fit, and "
    "the next steps, are counted with it. Empty: max model length, at most 32K."
)


def _switch(value: bool | None) -> str:
    return "auto" if value is None else "on" if value else "off"


def _drafts(scenario: Scenario) -> str:
    method = scenario.speculative_method
    if not scenario.num_speculative_tokens:
        return "no speculation"
    return f"{method.upper() if method else 'speculative'} {scenario.num_speculative_tokens}"


def length_text(tokens: int) -> str:
    """Return a length as vLLM's command line reads it: 32K is 32,768 tokens, 32k is 32,000."""
    for letter, scale in (("m", 1000**2), ("M", 1024**2), ("k", 1000), ("K", 1024)):
        if tokens >= scale and tokens % scale == 0:
            return f"{tokens // scale}{letter}"
    return f"{tokens:,}"


def requests_text(tokens: int) -> str:
    """Return which requests are counted."""
    return f"{length_text(tokens)}-token requests"


CHIPS: Mapping[str, Callable[[Scenario], str]] = {
    "model": lambda s: s.model if isinstance(s.model, str) else "inline config",
    "device": lambda s: s.device or "no device",
    "tensor_parallel": lambda s: f"{SHORT['tensor_parallel']} {s.tensor_parallel}",
    "kv_cache_dtype": lambda s: f"KV {s.kv_cache_dtype}",
    "enable_prefix_caching": lambda s: f"prefix caching {_switch(s.enable_prefix_caching)}",
    "num_speculative_tokens": _drafts,
    "rules": lambda s: f"vLLM {s.rules}",
}
"""Fields that always have a chip -> its text."""
SHARED = {"num_speculative_tokens": ("speculative_method",)}
"""A field with a chip -> others that the chip shows and sets, too."""


class Bar(NamedTuple):
    """What the bar shows."""

    scenario: Scenario
    model: Model | None
    legal: Legal
    opened: str = ""
    """The field whose control is open, "all" or nothing."""
    length_tokens: int = 0
    """Of the requests that are counted; 0 where vLLM refuses the scenario."""
    is_length_set: bool = False
    """Whether a person chose that length."""


def scenario_bar(bar: Bar) -> Html:
    """Return the chips, and under "+" every field by section."""
    scenario = bar.scenario
    chips = [_chip(name, text(scenario), bar) for name, text in CHIPS.items()]
    chips[-1:-1] = [_length_chip(bar)] if bar.length_tokens else []
    shown = {*CHIPS, *chain.from_iterable(SHARED.values())}
    chips += [
        _chip(name, f"{SHORT.get(name, field.label)} {setting_text(name, value)}", bar)
        for name, field in FIELDS.items()
        if name not in shown
        and ((value := getattr(scenario, name)) != field.default or name == bar.opened)
    ]
    return toolbar("Scenario", *chips, _every_field(bar), class_="wb-chips")


def _chip(name: str, text: str, bar: Bar) -> Html:
    field, text = FIELDS[name], cut(text)
    fields = [FIELDS[one] for one in (name, *SHARED.get(name, ()))]
    is_set = any(getattr(bar.scenario, one.name) != one.default for one in fields)
    label = f"{field.label}: {text}. Change it."
    pop = Html()
    if bar.opened in {one.name for one in fields}:
        controls = (_control(one, bar, f"chip-{one.name}") for one in fields)
        pop = tag("div", *controls, class_="wb-pop")
    return opening(name, text, label, pop, is_set=is_set)


def _length_chip(bar: Bar) -> Html:
    text = requests_text(bar.length_tokens)
    pop = Html()
    if bar.opened == LENGTH:
        words = "Request length"
        control = tag(
            "input",
            type="text",
            value=length_text(bar.length_tokens),
            list="wb-lengths",
            **_sent("length", "", f"chip-{LENGTH}", words),
        )
        options = (tag("option", value=length_text(tokens)) for tokens in LENGTHS)
        listed = tag("datalist", *options, id="wb-lengths")
        help_text = tag("small", LENGTH_HELP)
        label = tag("label", tag("span", words), control, help_text, class_="wb-field")
        pop = tag("div", label, listed, class_="wb-pop")
    words = f"Request length: {text}. Change it."
    return opening(LENGTH, text, words, pop, is_set=bar.is_length_set)


def _sent(do: str, arg: str, key: str, label: str) -> dict[str, str]:
    return {"data_do": do, "data_arg": arg, "data_key": key, "aria_label": label}


def _every_field(bar: Bar) -> Html:
    if bar.opened != ALL:
        return opening(ALL, "+", "All settings", Html())
    search = tag(
        "input",
        type="search",
        placeholder="Search all settings",
        aria_label="Search all settings",
        data_filter="",
        data_key="search",
    )
    controls: dict[str, list[Html]] = {title: [] for title in SECTIONS}
    for name, field in FIELDS.items():
        controls[field.section].append(_control(field, bar, f"all-{name}"))
    sections = (
        tag("fieldset", tag("legend", title or "Engine"), *fields)
        for title, fields in controls.items()
    )
    pop = tag("div", search, *sections, class_="wb-pop wb-all")
    return opening(ALL, "+", "All settings", pop)


def _control(field: Field, bar: Bar, key: str) -> Html:
    """Return the field's control with its label, and its help in plain sight."""
    value = getattr(bar.scenario, field.name)
    sent = _sent("set", field.name, key, field.label)
    listed = field.candidates(bar.scenario, bar.model) if field.is_listed else ()
    if listed:
        shown = bar.legal(field.name, listed) if field.only_legal else listed
        if value not in shown:
            shown = (*shown, value)
        options = (_option(field, one, value) for one in shown)
        control = tag("select", *options, data_json="", **sent)
    else:
        text = "" if isinstance(value, dict) else field.kind.format(value)
        control = tag("input", type="text", value=text, placeholder=field.none, **sent)
    words = f"{field.label} {field.name} {field.tip}".casefold()
    return tag(
        "label",
        tag("span", field.label),
        control,
        tag("small", field.tip),
        class_="wb-field",
        data_words=words,
    )


def _option(field: Field, value: Any, present: Any) -> Html:
    if isinstance(value, dict):
        label = "inline config"
    elif value is None:
        label = field.none
    else:
        label = _switch(value) if isinstance(value, bool) else str(value)
    selected = {"selected": ""} if value == present else {}
    return tag("option", label, value=json.dumps(value), **selected)
