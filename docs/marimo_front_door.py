"""The front door in marimo, and a cell that follows it: `marimo run docs/marimo_front_door.py`."""

import marimo

app = marimo.App(width="full")


@app.cell
def _():
    import marimo as mo

    import workbench as wb

    return mo, wb


@app.cell
def _(mo, wb):
    panel = wb.explore(model="qwen3-next-80b-a3b", device="H100", tensor_parallel=4)
    plan, set_plan = mo.state(panel.plan)
    panel.view.observe(lambda _change: set_plan(panel.plan), "plan")
    mo.ui.anywidget(panel.view)
    return (plan,)


@app.cell
def _(mo, plan):
    mo.md(f"**{plan().block_size:,}** tokens in a block: `{plan().to_vllm_command()}`")


if __name__ == "__main__":
    app.run()
