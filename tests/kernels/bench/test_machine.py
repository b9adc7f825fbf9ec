"""What a result says of its machine, and what a run says of a compiler that fails."""

import platform
import subprocess
from types import SimpleNamespace

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

from workbench.kernels.bench import machine
from workbench.kernels.bench import run as bench_run
from workbench.kernels.bench.machine import NO_GPU, cpu_model, device_name, this_machine
from workbench.kernels.bench.results import FLEX_GATE, FlexResult
from workbench.kernels.bench.run import Plan, Run
from workbench.kernels.inspection import InspectionError
from workbench.kernels.mode import TritonMode


@pytest.mark.parametrize(
    ("printed", "driver"), [("570.1 \n570.2\n", "570.1"), ("\n", None), (OSError(), None)]
)
def test_the_driver_is_what_the_first_gpu_says(monkeypatch, printed, driver):
    def output(command, *, text, timeout):
        assert command[0] == "nvidia-smi"
        assert text
        assert timeout >= 10
        if isinstance(printed, OSError):
            raise printed
        return printed

    monkeypatch.setattr(subprocess, "check_output", output)
    for mode in ("gpu", "interpreter"):
        decided = TritonMode(mode, "", "H200" if mode == "gpu" else None, "3", "2")
        monkeypatch.setattr(machine, "triton_mode", lambda found=decided: found)
        found = this_machine("block_table")
        assert found["driver"] == (driver if mode == "gpu" else None)
        assert found["device"] == device_name() == (decided.device or NO_GPU)


def test_the_processor_is_named_as_it_names_itself(monkeypatch, tmp_path):
    listing = tmp_path / "cpuinfo"
    monkeypatch.setattr(machine, "Path", lambda _name: listing)
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    for processor, other in (("a processor", "a processor"), ("", "x86_64")):
        monkeypatch.setattr(platform, "processor", lambda found=processor: found)
        listing.unlink(missing_ok=True)
        assert cpu_model() == other
        listing.write_text("flags : fpu\n", encoding="utf-8")
        assert cpu_model() == other
        listing.write_text("cpu : 1\nmodel name\t: A: B 9 \nmodel name\t: C\n", encoding="utf-8")
        assert cpu_model() == "A: B 9"


def gated(monkeypatch, inspect):
    said = []
    run = Run(Plan((), True, said.append), FlexResult({}, quick=True, rounds=5))
    monkeypatch.setattr(bench_run, "inspect_kernels", inspect)
    modules = [("ours", ("sm_90", "gfx942"), {"source": "us"}), ("theirs", ("sm_80",), {})]
    run.gate(modules, ("sm_90", "sm_86"), FLEX_GATE)
    return run.result, said


def test_kernels_are_compiled_for_the_targets_that_have_them(monkeypatch):
    def inspect(module, targets):
        assert (module, targets) == ("ours", ["sm_90"])
        return [SimpleNamespace(**dict.fromkeys(FLEX_GATE, 7))]

    result, said = gated(monkeypatch, inspect)
    assert result.gate == [{**dict.fromkeys(FLEX_GATE, 7), "source": "us"}]
    assert said == ["What the compiler makes of the kernels ..."]


def test_of_a_compiler_that_fails_the_last_words_are_kept(monkeypatch):
    def inspect(_module, _targets):
        raise InspectionError("first" + "." * 300)

    result, said = gated(monkeypatch, inspect)
    assert result.gate == []
    assert result.open_questions == ["Compiler figures are open: " + "." * 300] == said[1:]
