"""Each case runs in its own process: the mode is decided once a process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from workbench.kernels.mode import on_device

pytest.importorskip("triton")

ROOT = Path(__file__).parents[2]
# a stand-in for torch: the decision reads only what it says about its GPU
TORCH = """
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace
torch = sys.modules["torch"] = ModuleType("torch")
torch.__spec__ = ModuleSpec("torch", None)
torch.cuda = SimpleNamespace(is_available=lambda: {usable}, get_device_name=lambda: "Test GPU")
"""
FAKE_GPU, NO_GPU = TORCH.format(usable=True), TORCH.format(usable=False)
SHOW = """
import os
from workbench.kernels.mode import triton_mode
decided = triton_mode()
assert triton_mode() is decided
print(decided.mode, decided.device, decided.torch_device, os.environ.get("TRITON_INTERPRET"))
print(decided.reason)
"""


def run(code: str, interpret: str | None = None) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    environment["PYTHONPATH"] = str(ROOT)
    if interpret is not None:
        environment["TRITON_INTERPRET"] = interpret
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    ("gpu", "interpret", "expected", "reason"),
    [
        (NO_GPU, None, "interpreter None cpu 1", "torch sees no usable GPU"),
        (NO_GPU, "1", "interpreter None cpu 1", "TRITON_INTERPRET is set"),
        (NO_GPU, "", "interpreter None cpu 1", "torch sees no usable GPU"),
        (NO_GPU, "0", "unavailable None cpu 0", "torch sees no usable GPU"),
        (FAKE_GPU, None, "gpu Test GPU cuda None", "torch can use Test GPU"),
        (FAKE_GPU, "0", "gpu Test GPU cuda 0", "torch can use Test GPU"),
        (FAKE_GPU, "true", "interpreter None cpu true", "TRITON_INTERPRET is set"),
    ],
)
def test_the_gpu_and_the_users_variable_decide(gpu, interpret, expected, reason):
    result = run(gpu + SHOW, interpret)
    assert result.returncode == 0, result.stderr
    decided, said = result.stdout.splitlines()
    assert decided == expected
    assert reason in said


@pytest.mark.parametrize("missing", ["torch", "triton"])
def test_a_missing_package_makes_kernels_unavailable(missing):
    hide = f"""
import workbench.kernels.mode as mode
find_spec = mode.find_spec
mode.find_spec = lambda name: None if name == {missing!r} else find_spec(name)
decided = mode.triton_mode()
print(decided.mode, decided.reason, decided.{missing}_version)
"""
    assert run(hide).stdout.strip() == f"unavailable {missing} is not installed None"


def test_importing_the_module_imports_neither_torch_nor_triton():
    code = """
import sys
import workbench.kernels.mode, workbench.kernels.selftest
print(sorted({"torch", "triton", "numpy"} & set(sys.modules)))
"""
    assert run(code).stdout.strip() == "[]"


def test_deciding_does_not_import_triton():
    code = "import sys" + SHOW + "print('triton' in sys.modules)"
    assert run(NO_GPU + code).stdout.splitlines()[-1] == "False"


@pytest.mark.parametrize(
    ("before", "after", "loaded", "needed"),
    [
        ("import triton" + NO_GPU, "", "gpu mode", "interpreter mode"),
        (
            "import os; os.environ['TRITON_INTERPRET'] = '1'; import triton",
            FAKE_GPU + "os.environ.pop('TRITON_INTERPRET')",
            "interpreter mode",
            "gpu mode",
        ),
    ],
)
def test_triton_imported_earlier_in_the_other_mode_is_refused(before, after, loaded, needed):
    result = run(f"{before}\n{after}\n{SHOW}")
    assert result.returncode == 1
    message = result.stderr.splitlines()[-1]
    assert "TritonModeError" in message
    assert f"already imported in {loaded}" in message
    assert f"must run in {needed}" in message


def test_triton_imported_earlier_in_the_right_mode_is_fine():
    result = run("import triton" + NO_GPU + SHOW, interpret="1")
    assert result.stdout.startswith("interpreter"), result.stderr


@pytest.mark.slow
def test_the_real_torch_is_used():
    result = run(SHOW)
    assert result.stdout.startswith(("gpu", "interpreter")), result.stderr


def test_language_gives_triton_in_the_decided_mode():
    code = """
from workbench.kernels.language import tl, triton
print(triton.knobs.runtime.interpret, type(tl.zeros).__name__)
"""
    assert run(NO_GPU + code).stdout.strip() == "True InterpretedFunction"


def test_language_refuses_where_triton_is_unavailable():
    result = run(NO_GPU + "import workbench.kernels.language", interpret="0")
    assert "Triton kernels cannot run here: TRITON_INTERPRET=0 requires" in result.stderr


def test_launches_are_made_with_the_tensors_device_current():
    torch = pytest.importorskip("torch")
    guard = on_device(torch.device("cuda", 1))
    assert isinstance(guard, torch.cuda.device)
    assert guard.idx == 1
    with on_device(torch.device("cpu")):
        pass
