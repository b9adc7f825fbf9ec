"""The commands of `workbench`, a module each; `workbench.cli` puts them together."""
