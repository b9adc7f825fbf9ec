"""What a person can change in the front door and in its labs: everything, in random order."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from random import Random

import ipywidgets as widgets

from tests.ui.panels import press, shown_in_time
from workbench.core.what_if.next_steps import GOALS
from workbench.door.explanations import VIEWS
from workbench.door.labs import LABS
from workbench.labs.flex.labs import FLEX_LABS
from workbench.models import catalog_names
from workbench.scenario import FIELDS, Scenario
from workbench.ui import FrontDoor
from workbench.ui.completion_box import CompletionBox
from workbench.ui.live_figure import FigureView
from workbench.ui.panels.panel import Panel

TEXTS = ("", "1", "16", "0, 5", "-3", "4096", "64 GiB", "2q48_q16s700", "q100", "0-63", "x" * 99)
AXES = ("tensor_parallel 1 2", "tensor_parallel 1 2 4, kv_cache_dtype auto fp8", "block_size 15")
PASTED = (
    "vllm serve Qwen/Qwen3.5-4B --block-size 528",
    "Qwen3-Next-80B, 4 x H100, prefix caching",
    "plamo-2-1b, no such words",
    '{"architectures": ["Unknown"]}',
)
NOT_PRESSED = {
    *("Run vLLM", "Measure kernel", "Compile", "Trigger the mistake"),
    *(lab.button for lab in FLEX_LABS),
}
"""Buttons that start programs, compilers or kernels of seconds."""


class Person:
    """Changes a front door and labs at random; `settle` brings back what there was at the start."""

    def __init__(self, door: FrontDoor, seed: int, labs: Iterable[str] = LABS) -> None:
        self.door, self.random, self.labs = door, Random(seed), tuple(labs)
        self.panels = {title: door.open(title) for title in self.labs}
        self._home = {
            control: control.value
            for panel in self.panels.values()
            for control in _inside(panel.widget)
            if _is_input(control)
        }

    def settle(self) -> None:
        """Set every input and the scenario back, and let every lab show it."""
        press(self.door, "unpin")
        for control, value in self._home.items():
            if value in getattr(control, "_options_values", (value,)):
                control.value = value
        self.door.session.request(Scenario())
        for title in self.labs:
            panel = self.door.open(title)
            for part in reversed(range(len(getattr(panel, "parts", ())))):
                panel.part.value = part  # the hidden ones keep what is of an older scenario
            self._wait(panel)

    def change(self) -> None:
        """Change one thing of the door, or of a lab, which is then open."""
        title = self.random.choice(("", *self.labs))
        if not title:
            self.random.choice(DOOR)(self)
            return
        panel = self.door.open(title)
        controls = [one for one in _inside(panel.widget) if _can_change(one)]
        if controls:
            self._change_control(self.random.choice(controls))
            self._wait(panel)

    def _wait(self, panel: Panel) -> None:
        for part in (panel, *getattr(panel, "parts", ())):
            jobs = getattr(part, "jobs", None)
            assert jobs is None or shown_in_time(jobs)

    def _change_control(self, control: widgets.Widget) -> None:
        pick = self.random.choice
        match control:
            case widgets.Button():
                control.click()
            case widgets.Dropdown() | widgets.ToggleButtons():
                control.value = pick(control._options_values)
            case widgets.Checkbox() | widgets.ToggleButton():
                control.value = not control.value
            case widgets.BoundedIntText():
                control.value = self.random.randint(control.min, control.max)
            case CompletionBox():
                control.value = pick(AXES)
            case FigureView():
                control._handle_custom_msg(pick(self._gestures()), [])
            case _:
                control.value = pick(TEXTS)

    def _gestures(self) -> list[dict[str, object]]:
        at = [self.random.uniform(0, 10**6), self.random.uniform(0, 5)]
        number = self.random.randrange(20)
        return [
            {"event": "click", "trace": number, "point": self.random.randrange(20), "at": at},
            {"event": "move", "at": at},
            {"event": "zoom", "range": sorted(at)},
        ]

    def set_field(self) -> None:
        """Enter a value of a field, good or bad."""
        name, model = self.random.choice(tuple(FIELDS)), self.door.session.scenario.model
        field = FIELDS[name]
        if field.is_listed and self.door.plan is not None and isinstance(model, str):
            values = field.candidates(self.door.scenario, self.door.plan.model)
            text = json.dumps(self.random.choice(tuple(values) or (None,)))
        else:
            text = self.random.choice(TEXTS)
        press(self.door, "set", name, text)


def _say(do: str, *arguments: str) -> Callable[[Person], None]:
    return lambda person: press(person.door, do, person.random.choice(arguments or ("",)))


def _enter(do: str, *texts: str) -> Callable[[Person], None]:
    return lambda person: press(person.door, do, "", person.random.choice(texts))


DOOR: tuple[Callable[[Person], None], ...] = (
    *(Person.set_field,) * 6,
    lambda person: person.door.session.replace(model=person.random.choice(catalog_names())),
    _say("submit", *PASTED),
    _say("open", "all", "", *FIELDS),
    _say("view", *VIEWS, "pinned"),
    _say("goal", *GOALS),
    _say("all"),
    _say("next", "0", "1", "2"),
    _enter("length", "1000", "32768", "x"),
    _enter("try", "528", "1056", "7"),
    *map(_say, ("undo", "redo", "pin", "unpin", "swap", "reset")),
    _say("go", "0", "1", "5"),
    lambda person: press(person.door, "lab", person.random.choice(person.labs or ("",))),
)


def _inside(widget: widgets.Widget) -> Iterator[widgets.Widget]:
    yield widget
    for child in getattr(widget, "children", ()):
        yield from _inside(child)


def _is_input(control: widgets.Widget) -> bool:
    shows = (widgets.HTML, widgets.IntProgress)
    return isinstance(control, widgets.ValueWidget | CompletionBox) and not isinstance(
        control, shows
    )


def _can_change(control: widgets.Widget) -> bool:
    if isinstance(control, widgets.Button):
        return not control.disabled and control.description not in NOT_PRESSED
    has_choice = getattr(control, "_options_values", (None,))
    return bool(has_choice) and (isinstance(control, FigureView) or _is_input(control))
