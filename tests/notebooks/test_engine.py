import asyncio
from types import SimpleNamespace

import pytest
from nbclient.exceptions import CellTimeoutError

from workbench.notebooks import engine
from workbench.notebooks.memory import Limits


class Kernel:
    interrupts = 0

    async def interrupt_kernel(self):
        self.interrupts += 1


@pytest.fixture
def client():
    def make(limit_s, grace_s=60):
        made = engine.GuardedClient(
            SimpleNamespace(nb={"cells": []}),
            engine.Deadline(limit_s, grace_s),
            Limits(memory_bytes=2**32, output_bytes=2**20),
            interrupt_on_timeout=True,
            kernel_name="python3",
        )
        made.km = Kernel()
        assert made.timeout_func(None) > 0
        return made

    return make


def test_a_missing_reply_is_looked_for_again_while_there_is_time(client):
    waiting = client(3600)
    assert waiting.timeout_func(None) == engine._SLICE_S
    assert asyncio.run(waiting._async_handle_timeout(0.5)) is None
    assert waiting.km.interrupts == 0


def test_a_cell_out_of_time_is_interrupted_once_in_a_while(client, monkeypatch):
    late = client(0, grace_s=3600)
    monkeypatch.setattr(engine, "_BETWEEN_INTERRUPTS_S", 3600)
    asyncio.run(late._async_handle_timeout(0.5))
    asyncio.run(late._async_handle_timeout(0.5))
    assert late.km.interrupts == 1
    monkeypatch.setattr(engine, "_BETWEEN_INTERRUPTS_S", -1)
    asyncio.run(late._async_handle_timeout(0.5))
    assert late.km.interrupts == 2


def test_a_cell_that_ignores_interrupts_is_given_up(client):
    with pytest.raises(CellTimeoutError, match="ignored the interrupt"):
        asyncio.run(client(0, grace_s=-1)._async_handle_timeout(0.5))
