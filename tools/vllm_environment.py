"""Make a temporary environment with a vLLM that answers `workbench verify`, without a GPU.

    tools/vllm_environment.py 0.33.0 ~/vllm-0.33

vLLM is installed without its dependencies (gigabytes of CUDA): a torch for CPUs and the small
packages that its configuration and model modules import are installed with it.
"""

import argparse
import os
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
TORCHVISION = "torchvision==0.28.0"
"""Of the same release as the torch in constraints-torch.txt; its library need not load."""
TRANSFORMERS = {"0.23": "transformers==5.12.1", "0.33": "transformers==5.20.2"}
"""As old as the vLLM: later ones rename the layer kinds of some models, for example Granite's."""
PACKAGES = (
    *("aiohttp", "apache-tvm-ffi", "blake3", "cachetools", "cbor2", "cloudpickle", "einops"),
    *("fastapi", "filelock", "gguf", "httpx", "jinja2", "llguidance", "loguru", "mistral-common"),
    *("msgspec", "numpy", "openai", "openai-harmony", "oss-harmony", "packaging"),
    *("partial-json-parser", "pillow", "prometheus-client", "psutil", "py-cpuinfo", "pybase64"),
    *("pydantic", "pyyaml", "pyzmq", "regex", "requests", "sentencepiece", "tiktoken", "tqdm"),
    *("typing-extensions", "uvloop"),
)
WITHOUT_DEPENDENCIES = (
    *("apache-tvm-ffi", "compressed-tensors==0.17.0", "cuda-bindings", "cuda-pathfinder"),
    *("humming-kernels", "timm", "xgrammar"),
)
"""Imported by some model modules; their own dependencies are large and never used here."""


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("version", help="of vLLM, for example 0.33.0")
    parser.add_argument("folder", type=Path, help="new folder for the environment")
    parser.add_argument("--wheel", help="a vLLM wheel on this machine")
    options = parser.parse_args()
    if options.folder.exists():
        parser.error(f"{options.folder} exists: name a new folder, or delete that one")
    venv.create(options.folder, with_pip=True)
    python = options.folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    pip = [str(python), "-m", "pip", "--disable-pip-version-check", "-q", "install"]
    release = ".".join(options.version.split(".")[:2])
    for arguments in (
        # torch first and pinned, as for the workbench itself.
        ["-r", str(ROOT / "constraints-torch.txt")],
        [*PACKAGES, TRANSFORMERS.get(release, "transformers")],
        ["--no-deps", *WITHOUT_DEPENDENCIES, TORCHVISION],
        ["--no-deps", options.wheel or f"vllm=={options.version}"],
    ):
        subprocess.run([*pip, *arguments], check=True)
    print(f"workbench verify MODEL --python {python}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
