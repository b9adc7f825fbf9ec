"""Where vLLM has the source of a model's module. Imports nothing of vLLM or of the workbench."""

from pathlib import Path


def sources(package: Path, module: str) -> list[Path]:
    """Return the files of a module, by its name in a registry: one, or all of a package."""
    name = module if module.startswith("vllm.") else f"vllm.model_executor.models.{module}"
    place = package.joinpath(*name.split(".")[1:])
    files = sorted(place.rglob("*.py")) if place.is_dir() else [place.with_suffix(".py")]
    return [path for path in files if path.is_file()]
