"""What differs between versions when a prompt is cut into steps and looked up again."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, eq=False)
class PrefillRules:
    """Checkpoints and hits of one vLLM version.

    keeps_few_states: align mode keeps the state of a resent prompt and of a shared prefix's end,
    and a budget below the block only makes steps smaller (see `sparse`); else every step's
    end that is a block's end, and such a budget stops the request. hashes_look_ahead: with drafts
    the hash of a block covers the token after it, and nothing is dropped; else attention drops
    the last block that it matches.
    """

    keeps_few_states: bool = False
    hashes_look_ahead: bool = False
