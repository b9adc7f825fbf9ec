"""Triton kernels, installed as `workbench.kernels`.

Needs torch, triton and numpy, and nothing else of this project. Importing this package imports
none of them: `mode.triton_mode` decides first whether kernels run on a GPU or in Triton's
interpreter, and every kernel gets its `triton` from `language`, which makes that decision first.
"""

# from the checkout's root this folder is also found as `kernels`, another project's name
if __name__ == "kernels":
    raise ImportError("this folder is the package `workbench.kernels`: import it by that name")
