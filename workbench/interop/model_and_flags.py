"""A command of vLLM, or a model and flags alone: "gemma-3-27b --max-model-len 32768 on H100"."""

import re
from contextlib import suppress

from workbench.core.errors import ScenarioError, WorkbenchError
from workbench.interop.commands.command_line import read_command
from workbench.interop.description import Description, read_description
from workbench.interop.logs.explain import has_messages

MAX_COMMAND = 20_000
"""A text of more characters is not a command."""
MODEL_AND_FLAGS = re.compile(r"(?:serve\s+)?(-?[^\s-].*?)\s(--?[a-z].*?)(?:\s+on\s+([^'\"]*))?")
"""What is described, its flags, and a machine after them."""


def model_and_flags(text: str) -> tuple[Description, str] | None:
    """Return what words before flags describe, and the flags as a command; None for other texts.

    text: one line without a comment.
    """
    found = MODEL_AND_FLAGS.fullmatch(text)
    if found is None:
        return None
    model, flags, machine = found.groups()
    with suppress(ScenarioError):  # another reader may know the words
        described = read_description(f"{model} on {machine}" if machine else model)
        if described is not None and "model" in described.fields:
            return described, f"vllm serve {flags}"
    return None


def command_and_machine(text: str) -> tuple[str, str]:
    """Return a command, and what a comment or "on 8 x B200" after it says of its machine."""
    command, sign, comment = text.rpartition(" # ")
    if sign and "\n" not in comment:
        return command, comment
    command, _sign, machine = text.rpartition(" on ")
    with suppress(ScenarioError):  # the words are arguments
        described = read_description(machine) if command else None
        if described is not None and "device" in described.fields:
            return command, machine
    return text, ""


def described_in(text: str) -> Description | None:
    """Return what a text describes before flags, or as a whole. Errors: see `read_description`."""
    found = model_and_flags(text)
    return read_description(text) if found is None else found[0]


def is_command(text: str) -> bool:
    """Return whether a text is one command rather than a log that quotes one."""
    if len(text) > MAX_COMMAND or "INFO" in text or " pid=" in text:
        return False
    try:
        read_command(text)
    except WorkbenchError as error:
        if error.code == "not_a_vllm_command":
            return False
    return "\n" not in text or not has_messages(text)
