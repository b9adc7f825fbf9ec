"""What of the weights of a checkpoint a device has no kernel for."""

from workbench.core.missing_kernels import Stored, quantized_parts
from workbench.core.online import is_online, loading_method
from workbench.core.ranks import split_of
from workbench.core.stages.quantization import place_of
from workbench.core.working_plan import WorkingPlan


def missing_kernels(run: WorkingPlan) -> None:
    """Refuse weights in a format that the device has no kernel for."""
    method, place = loading_method(run), place_of(run)
    listed = run.rules.quantization.missing_kernels
    known = [one for one in listed if place.platform in one.platforms]
    if not known or method is None or is_online(run.model):
        return
    shares = stored_shares(run, method)
    for one in known:
        part = next((found.part for found in shares if one.is_missing(place, found)), None)
        if part is None:
            continue
        run.problem(
            "no_weight_kernel",
            variant="missing_kernels",
            operands={"platform": place.platform, "gfx": place.gfx, "part": part.name},
            candidates=one.candidates,
            field="device" if run.settings.device else "platform",
            vllm_text=one.vllm_text,
            one=one,
        )
        return


def stored_shares(run: WorkingPlan, method: str) -> list[Stored]:
    """Return what a rank has of the quantized parts, which a method stored."""
    split = split_of(run)
    return [
        Stored(part, method, sum(outputs), inputs, run.model_dtype)
        for part in quantized_parts(run)
        if part.fits(split)
        for outputs, inputs in (part.share(split),)
    ]
