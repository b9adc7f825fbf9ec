"""A plan with a connector in its command, and changes after which the connector starts."""

from workbench.core.chunks.connectors import Connector
from workbench.core.chunks.member import Member
from workbench.core.chunks.pieces import pieces_of
from workbench.core.chunks.rules import connector_problems, engine_with
from workbench.core.errors import WorkbenchError
from workbench.core.offload.checks import stops
from workbench.core.plan import Plan
from workbench.core.problems import ERROR, Problem
from workbench.core.remedies import Remedy, changed_plan


def member_of(label: str, plan: Plan, connector: Connector) -> Member:
    """Return the engine with this connector, and what the connector refuses of it."""
    engine, changed = engine_with(plan, connector)
    found = [] if changed is None else [changed]
    if engine.kept_cache is None:
        found += [_nothing_kept(engine)] if changed is None else []
    elif changed is None or changed.severity != ERROR:
        found += connector_problems(engine, connector)
    kept = engine.kept_cache is not None and not any(
        one.code == "connector_needs_one_group" for one in found
    )
    return Member(
        label=label,
        connector=connector,
        plan=engine,
        problems=tuple(found),
        pieces=pieces_of(engine, connector) if kept else (),
    )


def _nothing_kept(plan: Plan) -> Problem:
    why = "; ".join(one.message for one in plan.errors) or f"{plan.no_cache_text}."
    return stops("connector_no_cache", {"why": why})


def member_remedies(member: Member) -> tuple[Remedy, ...]:
    """Return changes of the scenario after which the connector starts, best first."""
    found = []
    for problem in member.problems:
        for changes in problem.candidates:
            try:
                plan = changed_plan(member.plan, changes)
            except WorkbenchError:
                continue
            new = {one.code for one in plan.errors} - {one.code for one in member.plan.errors}
            if not new and member_of(member.label, plan, member.connector).is_legal:
                found.append(Remedy(dict(changes), plan))
    return tuple(found[:1])
