"""The commands of `workbench`, one module each; `workbench.cli` assembles them."""
