"""The public names: complete, documented, and all that a notebook needs."""

import ast
import doctest
import inspect
import io
import json
import os
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

import workbench as wb
from workbench.core.plan_answers import PlanAnswers
from workbench.notebooks.problems import NotebookResultsError

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").rglob("*.ipynb"))
EXAMPLE = wb.resolve(model="nemotron-3-nano-30b-a3b", kv_cache_memory_bytes="20 GiB")
"""The plan of the examples, as docs/api.md introduces it."""
PUBLIC = [name for name in wb.__all__ if name != "__version__"]


def imports_of(path):
    """The modules that the code cells of a notebook import."""
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] != "code":
            continue
        for node in ast.walk(ast.parse("".join(cell["source"]))):
            if isinstance(node, ast.Import):
                yield from ((alias.name, alias.asname) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                yield node.module, None


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_imports_the_workbench_as_wb_alone(path):
    ours = {
        found
        for found in imports_of(path)
        if found[0].split(".")[0] in {"workbench", "kernels", "tests"}
    }
    assert ours <= {("workbench", "wb")}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_does_not_wrap_html(path):
    assert "IPython.display" not in {module for module, _ in imports_of(path)}


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_name_is_there_and_documented(name):
    value = getattr(wb, name)
    assert inspect.getdoc(value)
    assert name in dir(wb)


def examples():
    """Yield name -> docstring of every public name, and of every question that a plan answers."""
    yield from ((name, inspect.getdoc(getattr(wb, name))) for name in PUBLIC)
    answers = [name for name in vars(PlanAnswers) if not name.startswith("_")]
    yield from ((f"Plan.{name}", inspect.getdoc(getattr(wb.Plan, name))) for name in answers)


def _code(text):
    """Return the example in a docstring, as the page has it."""
    return ">>> " + text.partition("\n\n>>> ")[2]


@pytest.mark.parametrize(("name", "text"), [*examples()], ids=lambda value: value[:24])
@pytest.mark.usefixtures("no_progress")
def test_a_public_name_has_an_example_that_is_true(name, text, tmp_path, monkeypatch):
    run_example(name, text, tmp_path, monkeypatch)


API = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
START, *BLOCKS = re.findall(r"```pycon\n(.*?)```", API, re.DOTALL)
OF_PAGE = [one for one in BLOCKS if all(one != f"{_code(text)}\n" for _, text in examples())]


def test_the_page_says_what_its_examples_start_with():
    known = {}
    exec(re.sub("^>>> ", "", START, flags=re.MULTILINE), known)
    assert (known["wb"], known["plan"]) == (wb, EXAMPLE)
    assert OF_PAGE


@pytest.mark.parametrize("text", OF_PAGE, ids=lambda value: value[4:44].replace("\n", " "))
@pytest.mark.usefixtures("no_progress")
def test_an_example_of_the_page_is_true(text, tmp_path, monkeypatch):
    run_example("api.md", text, tmp_path, monkeypatch)


def run_example(name, text, folder, monkeypatch):
    """Run the example of a text in an empty folder, with the names that the page introduces."""
    monkeypatch.chdir(folder)
    known = {"wb": wb, "plan": EXAMPLE}
    example = doctest.DocTestParser().get_doctest(text, known, name, None, None)
    assert example.examples
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE | doctest.IGNORE_EXCEPTION_DETAIL
    said = io.StringIO()
    doctest.DocTestRunner(optionflags=options).run(example, out=said.write)
    assert not said.getvalue(), said.getvalue()


def test_the_type_checker_knows_the_same_names():
    tree = ast.parse((ROOT / "workbench" / "__init__.py").read_text(encoding="utf-8"))
    named = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.If)
        for imported in node.body
        if isinstance(imported, ast.ImportFrom)
        for alias in imported.names
    }
    assert named == set(PUBLIC)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'resolv'"):
        wb.resolv  # noqa: B018 - the access is what is tested


def test_verify_is_a_package_and_a_function():
    code = "import workbench.verify.process, workbench as wb; print(callable(wb.verify))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True"


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda plan: plan.figure(theme="purple"), "theme 'purple' is not known"),
        (lambda plan: plan.offload(cpu_bytes_to_use="64 XiB"), "Invalid cpu_bytes_to_use '64 XiB'"),
        (lambda plan: plan.transfer("qwen3-8b"), "plan.transfer expects a plan"),
        (lambda _plan: wb.explain_log(5), "Invalid log 5"),
        (lambda plan: plan.chunks(256), "plan.chunks expects a plan, .* got an int"),
        (lambda _plan: wb.chunks(None), "wb.chunks expects a plan, .* or several .* got None"),
        (lambda _plan: wb.chunks([]), "wb.chunks expects a plan, .* or several .* got none"),
        (lambda _plan: wb.from_vllm_command(None), "expects the text of a command; got None"),
        (lambda plan: wb.compare(plan, "0.33"), "0.33 is the newest version, [^-]*$"),
        (lambda plan: wb.compare(plan, ["0.23"]), r"rule set \['0.23'\] is not known"),
        (lambda _plan: wb.Scenario(3), "Invalid model 3 .int.. Expected a name, a path or a con"),
        (lambda _plan: wb.load_design(3), "Reading a design expects its path; got an int"),
        (lambda _plan: wb.cache_shape("TRITON"), "Nearest: TRITON_ATTN"),
    ],
)
def test_a_wrong_kind_of_argument_is_named(call, words):
    with pytest.raises(wb.ScenarioError, match=words):
        call(wb.resolve(model="qwen3.5-4b"))


FUNCTIONS = [name for name in PUBLIC if inspect.isroutine(getattr(wb, name))]
OF_VALUES = [None, 3, -1, 1.5, "x", b"x", [], [1], {}, {"x": 1}, object()]


@pytest.mark.parametrize("name", sorted({*FUNCTIONS} - {"compare_catalog", "reset_progress"}))
def test_a_function_answers_a_value_of_any_kind(name, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WORKBENCH_RESULTS", str(tmp_path / "results.json"))
    function = getattr(wb, name)
    given = [one for one in inspect.signature(function).parameters.values() if one.kind < 2]
    needed = [one for one in given if one.default is one.empty] or given[:1]
    for value in OF_VALUES:
        with suppress(wb.WorkbenchError, NotebookResultsError):
            function(*(value for _ in needed))


ANSWERS = [name for name in vars(PlanAnswers) if inspect.isroutine(getattr(wb.Plan, name))]


@pytest.mark.parametrize("name", [one for one in ANSWERS if not one.startswith("_")])
def test_an_answer_of_a_plan_takes_a_value_of_any_kind(name):
    function = getattr(PLAN, name)
    given = inspect.signature(function).parameters.values()
    needed = {one.name: 3 for one in given if one.default is one.empty and one.kind in {1, 3}}
    for one in given:
        for value in OF_VALUES:
            positional = [value] if one.kind == one.VAR_POSITIONAL else []
            named = {} if one.kind in {2, 4} else {one.name: value}
            with suppress(wb.WorkbenchError):
                function(*positional, **{**needed, **named})


def test_chunks_takes_one_plan():
    assert wb.chunks(EXAMPLE) == wb.chunks([EXAMPLE])


def test_a_log_is_also_a_path_as_text(tmp_path):
    assert wb.explain_log(str(LOG)).to_dict() == wb.explain_log(LOG).to_dict()
    with pytest.raises(wb.ScenarioError, match=r"'missing\.log' is neither a file nor a log"):
        wb.explain_log("missing.log")


def test_resolve_takes_fields():
    plan = wb.resolve(model="bamba-9b", tensor_parallel=2)
    assert plan == wb.resolve(model="bamba-9b", tensor_parallel=2)
    assert plan == wb.resolve(wb.Scenario(model="bamba-9b"), tensor_parallel=2)
    with pytest.raises(wb.ScenarioError, match="tensor_parallel"):
        wb.resolve(model="bamba-9b", tensor_paralel=2)


PLAN = wb.resolve(model="bamba-9b", kv_cache_memory_bytes="20 GiB", enable_prefix_caching=True)
LOG = ROOT / "tests" / "data" / "logs" / "whole_start_0_33.log"
LONGEST_REPR = 2000
FLEX = wb.resolve(model="llama-3.1-8b", backend="FLEX_ATTENTION", kv_cache_memory_bytes="20 GiB")


@pytest.mark.parametrize(
    "answer",
    [
        lambda: PLAN,
        PLAN.hits,
        lambda: PLAN.offload(cpu_bytes_to_use=2**36),
        lambda: PLAN.transfer(PLAN),
        lambda: PLAN.layout(num_blocks=3),
        lambda: PLAN.byte_map(num_blocks=3),
        lambda: PLAN.cache,
        lambda: FLEX.layout(num_blocks=3),
        FLEX.byte_map,
        lambda: wb.resolve(PLAN.scenario, kv_cache_memory_bytes=None).cache,
        lambda: FLEX.flex(227 * 1024),
        lambda: wb.flex(FLEX).picture(),
        wb.stale_picture,
        lambda: wb.tables(PLAN, "q40").launch(),
        lambda: wb.tables(PLAN, "q40").mistake(wb.tables(PLAN, "q40").mistakes[0]),
        lambda: wb.explain_log(LOG),
    ],
)
def test_an_answer_shows_itself(answer):
    found = answer()
    assert found._repr_html_().strip().startswith("<")
    assert "object at 0x" not in repr(found)
    assert f"{type(found).__name__}(" not in repr(found)
    assert len(repr(found)) < LONGEST_REPR


@pytest.mark.parametrize(
    "answer",
    [
        lambda: PLAN,
        PLAN.hits,
        lambda: PLAN.offload(cpu_bytes_to_use=2**36),
        lambda: FLEX.flex(227 * 1024),
        lambda: wb.flex(FLEX).picture(),
        lambda: wb.tables(PLAN, "q40").launch(),
    ],
)
def test_an_answer_has_a_figure(answer):
    assert answer().figure().data


def test_the_answers_are_those_of_the_rules():
    hits = PLAN.hits()
    assert (
        hits.hit(hits.alignment_tokens * 3, hits.alignment_tokens * 3 - 1).cached_tokens
        % (hits.alignment_tokens)
        == 0
    )
    assert sum(PLAN.waste(1000).parts.values()) == PLAN.waste(1000).reserved_bytes
    assert PLAN.requests_that_fit(1000) > PLAN.requests_that_fit(8000) > 0
    found = PLAN.byte_map(num_blocks=2)
    assert found.tensors[0].raw_bytes == 2 * PLAN.attention_page_size_bytes
    assert wb.check_ownership(PLAN.layout(num_blocks=2)).attention.ok
    picture = wb.stale_picture()
    assert picture.order(2).inverted
    assert picture.reordered((0, 1, 2)).order(2) == picture.order(2)


def test_hits_say_why_there_are_none():
    off = wb.resolve(PLAN.scenario, enable_prefix_caching=False).hits()
    assert "prefix caching is off" in repr(off).lower()
    assert "multiples of" in repr(PLAN.hits())


def test_the_page_of_the_public_names_is_up_to_date():
    command = [sys.executable, "tools/api_page.py", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_refused_call_shows_its_line_and_what_to_do_instead_of_a_traceback(tmp_path):
    pytest.importorskip("IPython")
    source = "import workbench as wb\nwb.resolve('qwen3-8b', tensor_paralel=2)"
    done = subprocess.run(
        [sys.executable, "-m", "IPython", "--colors=NoColor", "-c", source],
        env={**os.environ, "IPYTHONDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    shown = (done.stdout + done.stderr).splitlines()
    assert shown[0] == "ScenarioError (line 2: wb.resolve('qwen3-8b', tensor_paralel=2))"
    assert shown[1].startswith("A scenario has no field 'tensor_paralel'. Nearest: tensor_parallel")
    assert len(shown) == 2
