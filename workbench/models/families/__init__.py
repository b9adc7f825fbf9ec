"""One reader per model family; importing this package registers them.

To add a family: write a module of this package that calls `register`.
"""

from importlib import import_module
from pkgutil import iter_modules

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
