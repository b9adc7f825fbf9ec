"""Dense causal attention of one request in float64, and how far outputs are from it."""

from __future__ import annotations

import torch

from workbench.labs.flex.order import both_outputs, random_layer


def outputs_and_error(batch, request, attend, head_size=64):
    """Return a request's outputs, alone and in its batch, and their largest error."""
    queries, cache = random_layer(batch, head_size)
    outputs = both_outputs(batch, request, attend, queries, cache)
    first, alone = sum(batch.query_lens[:request]), batch.alone(request)
    own = queries[first : first + batch.query_lens[request], 0].double()
    pages = cache[list(alone.rows[0][: alone.own_blocks(0)])].double()
    keys, values = (pages[:, side].flatten(0, 1)[: alone.seq_lens[0], 0] for side in (0, 1))
    seen = torch.arange(len(keys)) <= torch.tensor(alone.positions)[:, None]
    exact = torch.nn.functional.scaled_dot_product_attention(own, keys, values, attn_mask=seen)
    return outputs, max(float((one[:, 0].double() - exact).abs().max()) for one in outputs)
