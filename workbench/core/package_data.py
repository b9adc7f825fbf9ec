"""The data files that come with the package: one of a folder, or one of every release."""

import json
from importlib import resources
from typing import Any


def package_data(package: str, file: str) -> Any:
    """Return what a JSON or a TOML file in the folder of a package holds."""
    text = (resources.files(package) / file).read_text(encoding="utf-8")
    if file.endswith(".toml"):
        import tomllib  # few need it

        return tomllib.loads(text)
    return json.loads(text)


def release_data(file: str) -> dict[str, dict[str, Any]]:
    """Return version -> what the JSON file of that name in its folder holds, oldest first."""
    every = resources.files("workbench.core") / "versions"
    folders = sorted(folder.name for folder in every.iterdir() if folder.name.startswith("v"))
    return {
        # From the name of the folder, so that a release is added by a folder alone.
        folder.removeprefix("v").replace("_", "."): package_data(
            "workbench.core", f"versions/{folder}/{file}"
        )
        for folder in folders
    }
