"""The tabs below the page figure, in order. A new one is a `Panel` and a place in PANELS."""

from __future__ import annotations

from collections.abc import Callable

from workbench.ui.panels.block_tables import BlockTablesPanel
from workbench.ui.panels.capacity import CapacityPanel
from workbench.ui.panels.copy import CopyPanel
from workbench.ui.panels.flex.panel import FlexPanel
from workbench.ui.panels.hits import HitsPanel
from workbench.ui.panels.log import LogPanel
from workbench.ui.panels.offload import OffloadPanel
from workbench.ui.panels.pages.panel import PagesPanel
from workbench.ui.panels.panel import Panel
from workbench.ui.panels.simple import (
    BackendsPanel,
    FieldsPanel,
    WhatIfPanel,
    WhyPanel,
)
from workbench.ui.panels.sweeps.panel import TuningPanel
from workbench.ui.panels.verify import VerifyPanel
from workbench.ui.panels.versions import VersionsPanel
from workbench.ui.session import Session

PANELS: tuple[Callable[[Session], Panel], ...] = (
    WhyPanel,
    WhatIfPanel,
    BackendsPanel,
    CapacityPanel,
    PagesPanel,
    HitsPanel,
    OffloadPanel,
    BlockTablesPanel,
    FlexPanel,
    VersionsPanel,
    VerifyPanel,
    TuningPanel,
    FieldsPanel,
    CopyPanel,
    LogPanel,
)

__all__ = ["PANELS", "Panel"]
