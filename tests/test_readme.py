"""The README's cell really prints what the README says."""

import contextlib
import io
import re
from pathlib import Path

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def fenced(language: str) -> str:
    return re.search(rf"```{language}\n(.*?)```", README, re.DOTALL).group(1)


def test_the_cell_has_five_lines_and_its_real_output():
    code = fenced("python")
    assert len([line for line in code.splitlines() if line.strip()]) == 5
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "README.md", "exec"), {})
    assert printed.getvalue() == fenced("text")


def test_every_linked_file_exists():
    root = Path(__file__).parents[1]
    links = re.findall(r"\]\(([^)#]+)\)", README)
    links.remove("../../deployments/github-pages")  # of GitHub, where the site is published
    assert links
    assert [link for link in links if "://" not in link and not (root / link).exists()] == []
