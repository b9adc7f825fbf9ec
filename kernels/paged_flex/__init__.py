"""Attention over a paged KV cache with masks and scores as small functions.

`api` is the kernel's entrance, `engine` the path of torch's flex_attention, `reference` the oracle
of both, `bitwise` checks whether a request's bits depend on its batch. `errors`, `settings` and
`work` are plain Python and numpy. Importing this package imports neither torch nor triton.
"""
