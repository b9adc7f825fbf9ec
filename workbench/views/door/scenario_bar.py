"""The scenario as chips: what most people set, what differs from the default, and all the rest."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from workbench.core.model import Model
from workbench.scenario import FIELDS, Scenario
from workbench.scenario.field import Field
from workbench.scenario.fields import SECTIONS
from workbench.views.html import Html, tag

Legal = Callable[[str, tuple[Any, ...]], tuple[Any, ...]]
"""(field, its candidates) -> those that vLLM accepts."""

ALL = "all"
CHIPS: Mapping[str, Callable[[Scenario], str]] = {
    "model": lambda s: s.model if isinstance(s.model, str) else "inline config",
    "device": lambda s: s.device or "no device",
    "tensor_parallel": lambda s: f"TP {s.tensor_parallel}",
    "kv_cache_dtype": lambda s: f"KV {s.kv_cache_dtype}",
    "enable_prefix_caching": lambda s: f"prefix caching {_switch(s.enable_prefix_caching)}",
    "num_speculative_tokens": lambda s: f"drafts {s.num_speculative_tokens}",
    "max_model_len": lambda s: _length(s.max_model_len),
    "rules": lambda s: f"vLLM {s.rules}",
}
"""Fields that always have a chip -> its text."""


def _switch(value: bool | None) -> str:
    return "auto" if value is None else "on" if value else "off"


def _length(value: int | None) -> str:
    if value is None:
        return "model's length"
    return f"{value // 1024}k" if value > 0 and value % 1024 == 0 else f"{value:,} tokens"


class Bar(NamedTuple):
    """What the bar shows. opened: the field whose control is open, "all" or nothing."""

    scenario: Scenario
    model: Model | None
    legal: Legal
    opened: str = ""


def scenario_bar(bar: Bar) -> Html:
    """Return the chips, and under "+" every field by section."""
    scenario = bar.scenario
    chips = [_chip(name, text(scenario), bar) for name, text in CHIPS.items()]
    chips += [
        _chip(name, f"{field.label} {_text(scenario, name)}", bar)
        for name, field in FIELDS.items()
        if name not in CHIPS and getattr(scenario, name) != field.default
    ]
    return tag("div", *chips, _every_field(bar), class_="wb-chips")


def _text(scenario: Scenario, name: str) -> str:
    value = getattr(scenario, name)
    return _switch(value) if isinstance(value, bool) else FIELDS[name].kind.format(value)


def _chip(name: str, text: str, bar: Bar) -> Html:
    field = FIELDS[name]
    is_set = getattr(bar.scenario, name) != field.default
    label = f"{field.label}: {text}. Change it."
    pop = Html()
    if bar.opened == name:
        pop = tag("div", _control(field, bar, f"chip-{name}"), class_="wb-pop")
    return _opening(name, text, label, is_set, pop)


def _opening(name: str, text: str, label: str, is_set: bool, pop: Html) -> Html:
    """Return a button, and below it what it has opened."""
    button = tag(
        "button",
        text,
        type="button",
        aria_label=label,
        aria_expanded=bool(pop),
        class_="wb-set" if is_set else None,
        data_do="open",
        data_arg="" if pop else name,
        data_key=f"open-{name}",
    )
    return tag("div", button, pop, class_="wb-chip", data_chip=name)


def _every_field(bar: Bar) -> Html:
    if bar.opened != ALL:
        return _opening(ALL, "+", "All settings", False, Html())
    search = tag(
        "input",
        type="search",
        placeholder="Search all settings",
        aria_label="Search all settings",
        data_filter="",
        data_key="search",
    )
    sections = (
        tag("fieldset", tag("legend", title or "Engine"), *_controls(names, bar))
        for title, names in _sections()
    )
    pop = tag("div", search, *sections, class_="wb-pop wb-all")
    return _opening(ALL, "+", "All settings", False, pop)


def _sections() -> Iterable[tuple[str, Sequence[str]]]:
    for title in SECTIONS:
        yield title, [name for name, field in FIELDS.items() if field.section == title]


def _controls(names: Iterable[str], bar: Bar) -> Iterable[Html]:
    for name in names:
        yield _control(FIELDS[name], bar, f"all-{name}")


def _control(field: Field, bar: Bar, key: str) -> Html:
    """Return the field's control with its label, and its help in plain sight."""
    value = getattr(bar.scenario, field.name)
    sent = {"data_do": "set", "data_arg": field.name, "data_key": key, "aria_label": field.label}
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
