"""Visible parts of the front door and of its labs, without a browser."""

from __future__ import annotations

import json
import re
from html import unescape

import ipywidgets as widgets

from workbench.door.labs import LABS
from workbench.ui import FrontDoor
from workbench.ui.jobs import JobRunner

TORCHAO = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "intermediate_size": 11008,
    "vocab_size": 32000,
    "max_position_embeddings": 2048,
    "quantization_config": {"quant_method": "torchao"},
}
"""A checkpoint whose config.json does not tell the bytes of its weights: so its memory is open."""
ACTION = re.compile(r'<button[^>]*data-do="(\w+)" data-arg="([^"]*)"[^>]*>(.*?)</button>')


def region(door: FrontDoor, name: str) -> str:
    """Return the HTML of one region."""
    return door.view.regions[name]


def remedies(door: FrontDoor) -> dict[str, dict[str, object]]:
    """Return label -> changes of the buttons that apply a remedy, top to bottom."""
    shown = "".join(door.view.regions.values())
    return {
        unescape(label): json.loads(unescape(arg))
        for do, arg, label in ACTION.findall(shown)
        if do == "apply"
    }


def press(door: FrontDoor, do: str, arg: object = "", text: str = "") -> None:
    """Send what the browser sends for a click."""
    door.widget.children[0]._handle_custom_msg({"do": do, "arg": arg, "text": text}, [])


def text(door: FrontDoor) -> str:
    """Return the HTML of every region and of every lab, without the style sheet."""
    parts = [html for name, html in door.view.regions.items() if name != "style"]
    for title in LABS:
        door.open(title)

    def walk(widget: widgets.Widget) -> None:
        if isinstance(widget, widgets.HTML):
            parts.append(widget.value.partition("</style>")[2] or widget.value)
        for child in getattr(widget, "children", ()):
            walk(child)

    walk(door.labs.widget)
    return "\n".join(parts)


def shown_in_time(jobs: JobRunner, timeout_s: float = 300.0) -> bool:
    """Wait until everything that was started has been shown; return False if it has not."""
    try:
        if jobs.pending is not None:
            jobs.pending.exception(timeout_s)
    except TimeoutError:
        return False
    return True
