"""What a command says of the machine without a flag: its image, its devices, its variables."""

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from workbench.core.versions import RULE_SETS
from workbench.interop.commands.not_modelled import ON

PARTS = re.compile(r"[-_/:.=]")
OF_IMAGE = {"rocm": "rocm", "xpu": "xpu", "cpu": "cpu"}
"""Part of the name of an image with vLLM -> platform."""
ELSEWHERE = frozenset({"tpu", "ascend", "npu", "neuron", "gaudi", "hpu"})
"""The same, of platforms that vLLM has as plugins."""
TAG = re.compile(r":v?(\d+\.\d+)(?:\.\d+)?\b[^/]*$")
"""A release of vLLM in the tag of an image."""
MOVING = (":latest", ":nightly")
"""Tags of whatever release is the newest."""
OF_DEVICE = {"/dev/kfd": "rocm"}
"""File of a device that a container gets -> platform."""
OF_VARIABLE = {"VLLM_ROCM_": "rocm", "HIP_VISIBLE_": "rocm", "VLLM_XPU_": "xpu", "VLLM_CPU_": "cpu"}
"""Beginning of a variable that one platform reads -> that platform."""


class Machine(NamedTuple):
    """A platform, and the words that say so."""

    platform: str
    source: str


class Image(NamedTuple):
    """A container's image."""

    rules: str
    """The version of vLLM that its tag names, if its rules are known; else empty."""
    name: str
    notes: tuple[str, ...] = ()


def machine_of_command(words: Iterable[str], values: Mapping[str, str]) -> Machine | None:
    """Return the platform that a command names; None where nothing names one.

    words: those before the arguments. values: of variables that are set there.
    """
    found = [one for word in words if (one := _of_word(word)) is not None]
    for name, value in values.items():
        platform = next((OF_VARIABLE[one] for one in OF_VARIABLE if name.startswith(one)), None)
        if platform is not None and value.casefold() not in ON:
            found.append(Machine(platform, f"{name}={value}"))
    return found[0] if found else None


def notes_on_plugins(words: Iterable[str]) -> list[str]:
    """Return a note for an image of a platform that vLLM has as a plugin only."""
    images = [word for word in words if _is_image(word) and ELSEWHERE & _parts(word)]
    return [f"{one}: vLLM has this platform as a plugin, with rules of its own." for one in images]


def image_of_command(words: Iterable[str]) -> Image:
    """Return the image that a command runs, of the first word that is a tagged one with vLLM."""
    images = [word for word in words if _is_image(word)]
    tagged = ((TAG.search(word), word) for word in images)
    release, name = next(((tag[1], word) for tag, word in tagged if tag), ("", ""))
    own = [word for word in images if not ELSEWHERE & _parts(word)]
    if not release and (moving := [word for word in own if word.endswith(MOVING)]):
        note = f"{moving[0]}: the tag does not name a release. Choose the vLLM version."
        return Image("", moving[0], (note,))
    if not release or release in RULE_SETS:
        return Image(release, name)
    known = ", ".join(one for one in RULE_SETS if one[:1].isdigit())
    return Image("", name, (f"{name}: vLLM {release} is not among the versions here: {known}.",))


def _of_word(word: str) -> Machine | None:
    for file, platform in OF_DEVICE.items():
        if word.endswith(file):
            return Machine(platform, word)
    named = [platform for part, platform in OF_IMAGE.items() if part in _parts(word)]
    return Machine(named[0], word) if named and _is_image(word) else None


def _is_image(word: str) -> bool:
    return "vllm" in word and "=" not in word and not word.startswith((".", "/", "-"))


def _parts(word: str) -> frozenset[str]:
    return frozenset(PARTS.split(word.casefold()))
