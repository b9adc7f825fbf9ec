"""What a command line or a log calls a model -> what a scenario calls it."""

from pathlib import Path

from workbench.access.app_mode import app_mode
from workbench.models.catalog import catalog_name


def model_reference(reference: str) -> str:
    """Return a catalog name if there is one; for a folder the config.json in it."""
    return catalog_name(reference) or local_config(reference) or reference


def local_config(reference: str) -> str | None:
    """Return the config.json of a folder on this machine; None if there is none."""
    if app_mode() is not None:  # a log must not reveal which folders exist
        return None
    try:
        inside = Path(reference).expanduser() / "config.json"
        return str(inside) if inside.is_file() else None
    except (OSError, RuntimeError, ValueError):  # a name too long, no home folder, a zero byte
        return None
