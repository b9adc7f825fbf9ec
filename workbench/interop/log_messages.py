"""The messages that are recognised, by name."""

from __future__ import annotations

from workbench.core.registry import Registry
from workbench.interop.log_errors import ERRORS
from workbench.interop.log_losses import LOSSES
from workbench.interop.log_message import Message
from workbench.interop.log_sizes import SIZES
from workbench.interop.log_start import START

MESSAGES: Registry[Message] = Registry("message", "log")
"""Name -> message."""

for _message in (*START, *SIZES, *LOSSES, *ERRORS):
    MESSAGES.add(_message.name, _message)
