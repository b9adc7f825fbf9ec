"""A design file: a scenario with notes, its numbers, and the versions that made it."""

import json
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from workbench.access.json_text import parse_json
from workbench.core.errors import ScenarioError, shown
from workbench.core.plan import Plan
from workbench.core.trace import show

SCHEMA = "hybrid-kv-workbench/design"
SCHEMA_VERSION = 1
MAX_DESIGN_BYTES = 16 * 2**20
NUMBERS = (
    *("backend", "block_size", "mamba_block_size", "mamba_cache_mode", "mamba_cache_dtype"),
    *("mamba_ssm_cache_dtype", "enable_prefix_caching", "kv_cache_dtype", "max_model_len"),
    *("attention_bytes_per_token", "attention_page_size_bytes", "mamba_page_size_bytes"),
    *("mamba_page_size_padded", "kernel_block_size", "num_blocks", "blocks_per_request"),
    *("scheduler_block_size", "hash_block_size"),
)
"""Parts of a published plan that are kept, to check later whether the rules still give them."""


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class MadeWith:
    """Versions that made the file."""

    workbench: str
    rules: str


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class Design:
    """One design."""

    scenario: dict[str, Any]
    """Every field by name."""
    title: str
    notes: str
    fingerprint: Annotated[str, Field(pattern=r"^[0-9a-f]{8}$")] | None
    """Eight hex digits of the plan; None where the configuration is refused."""
    numbers: dict[str, Any]
    """See NUMBERS, and `problems` by code."""
    made_with: MadeWith

    def to_json(self) -> str:
        """Return the file: readable, one key per line, with the schema's name and version first."""
        body = TypeAdapter(Design).dump_python(self, mode="json")
        head = {"schema": SCHEMA, "schema_version": SCHEMA_VERSION}
        return json.dumps({**head, **body}, indent=2, ensure_ascii=False) + "\n"


def design_of(
    plan: Plan, scenario: Mapping[str, Any], workbench: str, title: str = "", notes: str = ""
) -> Design:
    """Return the design of a plan and of the scenario fields that it was resolved from."""
    return Design(
        scenario=dict(scenario),
        title=title or repr(plan),
        notes=notes,
        fingerprint=plan.fingerprint,
        numbers=numbers_of(plan),
        made_with=MadeWith(workbench=workbench, rules=plan.settings.rules),
    )


def numbers_of(plan: Plan) -> dict[str, Any]:
    """Return the numbers by which two resolutions are compared."""
    published = plan.to_dict()
    numbers = {name: published[name] for name in NUMBERS}
    return {**numbers, "problems": sorted(problem.code for problem in plan.problems)}


def read_design(text: str) -> Design:
    """Return the design in a file. Errors: ScenarioError for another form or a newer schema."""
    if len(text) > MAX_DESIGN_BYTES:
        raise _unreadable(f"it has {len(text):,} characters, more than {MAX_DESIGN_BYTES:,}")
    try:
        values = parse_json(text)
    except ValueError as error:
        raise _unreadable(f"it is not JSON ({error})") from None
    if not isinstance(values, dict) or values.pop("schema", None) != SCHEMA:
        raise _unreadable(f'"schema": "{SCHEMA}" is missing')
    version = values.pop("schema_version", None)
    if version != SCHEMA_VERSION:
        newer = isinstance(version, int) and version > SCHEMA_VERSION
        advice = "Install a newer workbench." if newer else "The file is damaged or was edited."
        given = f"This design has schema version {shown(version)};"
        message = f"{given} this workbench reads {SCHEMA_VERSION}."
        raise ScenarioError("schema_unknown", f"{message} {advice}", field="schema_version")
    try:
        return TypeAdapter(Design).validate_python(values)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise _unreadable(f"{place}: {first['msg']}", place) from None


def differences(design: Design, plan: Plan) -> tuple[str, ...]:
    """Return what the rules give now and did not when the design was made, one sentence each."""
    now = numbers_of(plan)
    found = [
        f"{name} was {show(design.numbers[name])} and is {show(now[name])} now."
        for name in now
        if name in design.numbers and design.numbers[name] != now[name]
    ]
    if found:
        made = design.made_with
        found.insert(
            0,
            f"The rules or the model's config.json have changed since this design was made with "
            f"workbench {made.workbench}, rules {made.rules} (plan {design.fingerprint}, now "
            f"{plan.fingerprint}):",
        )
    elif design.fingerprint != plan.fingerprint:
        found.append(
            f"The fingerprint was {design.fingerprint} and is {plan.fingerprint} now: the scenario "
            "or the model is described in different words; every number is the same."
        )
    return tuple(found)


def _unreadable(why: str, field: str = "design") -> ScenarioError:
    advice = "Write one with `workbench report SCENARIO --design FILE`."
    message = f"This is not a design file: {why}. {advice}"
    return ScenarioError("design_unreadable", message, field=field)
