"""Make a release, or check what one would publish.

    make release VERSION=0.2.0           # version, changelog, citation, checks, a commit and a tag
    python tools/release.py check        # build both archives, install the wheel alone, run it
    git push --follow-tags               # the workflow `release` checks again, and publishes

`check` needs the package `build` only, and downloads what the wheel requires: it proves that the
wheel works where nothing else is installed.
"""

import argparse
import json
import re
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).parents[1]
FACE, CHANGELOG = ROOT / "workbench" / "__init__.py", ROOT / "CHANGELOG.md"
CITATION, VERIFIED = ROOT / "CITATION.cff", ROOT / "benchmarks" / "results" / "verify.json"
DIST = ROOT / "dist"
VERSION = re.compile(r'(?m)^__version__ = "(.+)"$')
NUMBER = re.compile(r"\d+\.\d+\.\d+(?:(?:a|b|rc)\d+)?")
UNRELEASED = "## Unreleased\n"
ANSWERED = {"resolve": "Qwen/Qwen3.8-27B", "info": None, "models": None}
"""Commands that the installed wheel has to answer, with an argument."""


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    todo = parser.add_subparsers(dest="todo", required=True)
    todo.add_parser("check").add_argument("--tag", help="refuse another version than this tag's")
    todo.add_parser("make").add_argument("version")
    options = parser.parse_args()
    if options.todo == "check":
        check(options.tag)
    else:
        make(options.version)
    return 0


def check(tag: str | None = None) -> None:
    """Build source archive and wheel, and run the wheel in an empty environment."""
    version = VERSION.search(FACE.read_text("utf-8"))[1]  # type: ignore[index]
    if tag is not None and tag != f"v{version}":
        sys.exit(f"The tag {tag} is not of this version. Expected v{version}.")
    if changes(version) is None:
        sys.exit(f"CHANGELOG.md has no section for {version}.")
    for old in DIST.glob("hybrid_kv_workbench-*"):
        old.unlink()
    _run(sys.executable, "-m", "build", "--outdir", str(DIST), str(ROOT))
    (wheel,), (source,) = DIST.glob("*.whl"), DIST.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as archive:
        files = [one for one in archive.infolist() if not one.is_dir()]
    strange = [one.filename for one in files if not one.filename.startswith(_OWN)]
    if strange:
        sys.exit(f"The wheel has files outside its package: {', '.join(strange[:5])}.")
    with tarfile.open(source) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    if missing := {"LICENSE", "README.md", "pyproject.toml", "setup.py", "kernels/mode.py"} - names:
        sys.exit(f"The source archive lacks {', '.join(sorted(missing))}.")
    unpacked = sum(one.file_size for one in files)
    print(
        f"{wheel.name}: {wheel.stat().st_size:,} bytes, {unpacked:,} unpacked, {len(files)} files"
    )
    _answers(wheel)


_OWN = ("workbench/", "hybrid_kv_workbench-")


def _answers(wheel: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        programs = Path(folder) / ("Scripts" if sys.platform == "win32" else "bin")
        _run(str(programs / "python"), "-m", "pip", "install", "--quiet", str(wheel))
        for command, argument in ANSWERED.items():
            words = [command] if argument is None else [command, argument]
            _run(str(programs / "hybrid-kv-workbench"), *words, cwd=folder)
            print(f"hybrid-kv-workbench {' '.join(words)}: answers")


def make(version: str) -> None:
    """Write the version everywhere, check, commit and tag."""
    if not NUMBER.fullmatch(version):
        sys.exit(f"Invalid VERSION {version!r}. Expected a number such as 0.2.0 or 0.2.0rc1.")
    if _run("git", "status", "--porcelain"):
        sys.exit("The checkout has changes. Commit them first.")
    if f"v{version}" in _run("git", "tag").split():
        sys.exit(f"v{version} is a tag already. Choose the next number.")
    text = CHANGELOG.read_text("utf-8")
    if not (changes("Unreleased") or "").strip():
        sys.exit("CHANGELOG.md has nothing under Unreleased: say what users get.")
    today = datetime.now(UTC).date().isoformat()
    head = f"{UNRELEASED}\n## {version} ({today})\n\n{checked()}\n"
    CHANGELOG.write_text(text.replace(UNRELEASED, head, 1), encoding="utf-8")
    FACE.write_text(VERSION.sub(f'__version__ = "{version}"', FACE.read_text("utf-8")), "utf-8")
    CITATION.write_text(cited(CITATION.read_text("utf-8"), version, today), encoding="utf-8")
    try:
        check()
    except SystemExit:
        _run("git", "checkout", "--", *map(str, (CHANGELOG, FACE, CITATION)))
        raise
    _run("git", "commit", "--quiet", "--all", "--message", f"release: {version}")
    _run("git", "tag", "--annotate", f"v{version}", "--message", f"{version}\n\n{checked()}")
    print(f"\n{checked()}\nTo publish: git push --follow-tags")


def changes(version: str) -> str | None:
    """Return the section of the changelog about a version; None if there is none."""
    sections = re.split(r"(?m)^## ", CHANGELOG.read_text("utf-8"))[1:]
    found = (one.partition("\n")[2] for one in sections if one.split()[0] == version)
    return next(found, None)


def cited(text: str, version: str, date: str) -> str:
    """Return CITATION.cff with another version and date."""
    kept = re.sub(r"(?m)^date-released: .*\n", "", text)
    return re.sub(r"(?m)^version: .*$", f"version: {version}\ndate-released: {date}", kept)


def checked() -> str:
    """Return which releases of vLLM the rules were compared with, and when, from the record."""
    reports = json.loads(VERIFIED.read_text("utf-8"))["reports"]
    parts = [f"vLLM {one['vllm']} on {one['date']}" for one in reports]
    return f"Rules checked against {' and '.join(parts)}."


def _run(*command: str, cwd: str | None = None) -> str:
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=cwd or ROOT)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
