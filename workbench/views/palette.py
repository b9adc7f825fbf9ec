"""Colours and themes of every figure: colour-blind safe (Okabe and Ito), for light and dark."""

from dataclasses import dataclass

from workbench.core.errors import check_name

ATTENTION = "#0072B2"
ATTENTION_BEFORE = "#56B4E9"
CONV = "#E69F00"
RECURRENT = "#009E73"
PADDING = "#999999"
CURRENT = "#D55E00"
PINK, YELLOW = "#CC79A7", "#F0E442"
FAINT = "rgba(128,128,128,0.12)"
"""What is there and not of interest."""


@dataclass(frozen=True, slots=True)
class Theme:
    """Colours of everything that is not data."""

    text: str
    grid: str
    rule: str
    paper: str = "rgba(0,0,0,0)"


class Themes(dict[str, Theme]):
    """The themes by name; ScenarioError names them for any other."""

    def __getitem__(self, name: str) -> Theme:
        """Return a theme, and refuse an unknown name."""
        check_name("theme", name, self, "theme")
        return super().__getitem__(name)


THEMES = Themes(
    {
        "auto": Theme(text="#767676", grid="rgba(128,128,128,0.25)", rule="rgba(255,255,255,0.55)"),
        "light": Theme(
            text="#222222", grid="#dddddd", rule="rgba(255,255,255,0.55)", paper="#ffffff"
        ),
        "dark": Theme(text="#e0e0e0", grid="#444444", rule="rgba(0,0,0,0.45)", paper="#111111"),
    }
)
"""Name -> theme; "auto" is transparent to the page and is readable on light and dark."""
