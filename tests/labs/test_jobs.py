"""Jobs: one thread per lane, in order, without gradients, and stopped on request."""

from __future__ import annotations

import threading

import pytest
import torch

from workbench.labs import jobs
from workbench.labs.jobs import KERNELS, PROCESSES, Job, Stopped, launch

SECONDS = 60  # reached only by a broken program


def test_a_lane_is_one_thread_without_gradients_and_another_lane_is_another():
    def where():
        return threading.get_ident(), torch.is_inference_mode_enabled()

    first, second = (launch(where).result(SECONDS) for _ in range(2))
    assert first == second
    assert first[1]
    other = launch(where, PROCESSES).result(SECONDS)
    assert other[0] not in {first[0], threading.get_ident()}


def test_a_long_process_does_not_delay_a_launch():
    opened = threading.Event()
    waiting = launch(lambda: opened.wait(SECONDS), PROCESSES)
    try:
        assert launch(lambda: 3, KERNELS).result(SECONDS) == 3
        assert not waiting.done()
    finally:
        opened.set()
    assert waiting.result(SECONDS)


def test_the_device_of_the_caller_is_passed_on(monkeypatch):
    made_current = []

    class Current:
        def __init__(self, device):
            made_current.append(device)

        __enter__ = __exit__ = lambda *_arguments: None

    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 3)
    monkeypatch.setattr(torch.cuda, "device", Current)
    launch(lambda: None).result(SECONDS)
    assert made_current == [3]


def test_without_a_chosen_device_torch_keeps_its_first():
    if torch.cuda.is_initialized():
        pytest.skip("a device is current in this process")
    assert jobs._current_device() == jobs.FIRST_DEVICE
    assert launch(lambda: 1).result(SECONDS) == 1


def test_a_stop_is_noticed_at_the_next_check():
    job = Job()
    job.check()
    job.stop()
    assert job.stopping
    with pytest.raises(Stopped):
        job.check()
