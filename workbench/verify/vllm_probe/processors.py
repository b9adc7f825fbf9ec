"""What a multimodal model accepts, where the files of its processor are not here."""

from functools import cached_property
from types import SimpleNamespace
from typing import Any

from .machine import Machine


def limits_without_files(machine: Machine) -> None:
    """Take a multimodal model to accept images where the files of its processor would say so."""
    from vllm.multimodal.processing import BaseProcessingInfo

    real = BaseProcessingInfo.__dict__["supported_mm_limits"]
    if not isinstance(real, cached_property):
        return

    def limits(self: Any) -> Any:
        try:
            return real.func(self)
        except Exception:  # noqa: BLE001  (whatever a processor raises without its files)
            machine.stand_ins["the processor of images"] = "not queried: images are accepted"
            return {"image": None}

    BaseProcessingInfo.supported_mm_limits = property(limits)
    _without_image_processor(machine)


def _without_image_processor(machine: Machine) -> None:
    """Do the same where the description of a processor already loads its files (Kimi-K3)."""
    from vllm.multimodal.registry import MultiModalRegistry

    real = MultiModalRegistry.get_processing_info

    def info(self: Any, *given: Any, **options: Any) -> Any:
        try:
            return real(self, *given, **options)
        except OSError:
            machine.stand_ins["the processor of images"] = "not queried: images are accepted"
            return SimpleNamespace(supported_mm_limits={"image": None})

    MultiModalRegistry.get_processing_info = info
