"""Wait for the hub in a thread of its own, so that the kernel answers meanwhile."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from workbench.core.errors import WorkbenchError
from workbench.interop.omnibox import hub_ids
from workbench.labs.jobs import HUB, launch
from workbench.models.load import load_model
from workbench.views import html

Message = Mapping[str, Any]


class HubFirst:
    """Passes messages of the browser on; one that names a model of the hub after it was read.

    do: takes a message. look: shows an HTML `complaint`.
    """

    def __init__(self, do: Callable[[Message], None], look: Callable[..., None]) -> None:
        self._do, self._look = do, look
        self._newest: Message = {}

    def take(self, message: Message) -> None:
        """Do what a message says, now or later; a newer entry takes the place of a waiting one."""
        entered = {"submit": message.get("arg"), "set": message.get("text")}
        text = entered.get(str(message.get("do")))
        if text is not None:
            self._newest = message
        if named := hub_ids(str(text or "")):
            waiting = f"Reading config.json of {' and '.join(named)} from the hub ..."
            self._look(complaint=html.note(waiting))
            launch(partial(self._read, named, message), HUB)
        else:
            self._do(message)

    def _read(self, named: tuple[str, ...], message: Message) -> None:
        for hub_id in named:
            with suppress(WorkbenchError):  # it occurs again below, and is shown
                load_model(hub_id)
        if self._newest is message:
            self._do(message)
