"""Files that change into devices, pipes and endless ones while they are read, and logs of noise."""

from __future__ import annotations

import json
import os
import threading
from contextlib import suppress
from pathlib import Path

import pytest

import workbench as wb
from tests.soak.duration import MOST_GROWTH_BYTES, WARM, held, soak, turns
from workbench.core.errors import Unusable, WorkbenchError
from workbench.interop.batch import resolve_lines
from workbench.models import catalog_config
from workbench.sweeps.store import ResultStore

pytestmark = [soak, pytest.mark.slow]
LOGS = sorted((Path(__file__).parents[1] / "data" / "logs").glob("*.log"))
TOKENS = (
    *(b"9" * 5000, b"1.5.35 GiB", b"inf", b"-1", b"[" * 5000, b"\0", b"\xff\xfe", b"\r", b"{'a': "),
    *(b"\x1b[31m", b'{"log": "', b"\xed\xa0\x80", b"()", b"GiB", b"model='/dev/zero'", b"%s%n"),
)


def become(path: Path, number: int) -> None:
    """Put another kind of file in the place of `path`, at once as a rename does."""
    part = path.with_name(f"part-{number % 8}")
    with suppress(FileNotFoundError):
        part.unlink()
    kinds = (
        lambda: part.write_text(json.dumps(catalog_config("bamba-9b"))),
        lambda: os.mkfifo(part),
        lambda: part.symlink_to("/dev/zero"),
        lambda: part.symlink_to("/proc/kmsg"),
        lambda: part.symlink_to(part.name),
        lambda: part.write_text('{"model_type": ' + "[" * 10**5),
        lambda: part.write_bytes(b"\0" * 1000),
        lambda: part.open("wb").truncate(5 * 10**9),
    )
    kinds[number % len(kinds)]()
    part.replace(path)


def test_a_file_that_changes_while_it_is_read_is_refused_or_whole(tmp_path):
    path, stop = tmp_path / "config.json", threading.Event()
    become(path, 0)
    expected = wb.resolve(model=str(path)).block_size

    def change():
        number = 0
        while not stop.is_set():
            become(path, number := number + 1)

    changing = threading.Thread(target=change, daemon=True)
    changing.start()
    readers = (
        lambda: wb.resolve(model=str(path)).block_size,
        lambda: wb.explain_log(path) and None,
        lambda: wb.load_design(path) and None,
        lambda: list(resolve_lines([json.dumps({"model": str(path)})])) and None,
        lambda: ResultStore(path, read_only=True).close(),
    )
    memory, descriptors = 0, 0
    try:
        for turn, chance in turns():
            with suppress(WorkbenchError, Unusable):
                assert chance.choice(readers)() in {None, expected}
            if turn == WARM:
                memory, descriptors = held()
    finally:
        stop.set()
        changing.join()
    after, still_open = held()
    assert after - memory < MOST_GROWTH_BYTES
    assert still_open <= descriptors + 1  # the other thread's


@pytest.mark.thorough
def test_noise_in_a_log_raises_errors_of_ours_at_most():
    explained = 0
    memory, _ = held()
    for turn, chance in turns():
        data = bytearray(chance.choice(LOGS).read_bytes())
        for _ in range(chance.randrange(1, 12)):
            at = chance.randrange(len(data) + 1)
            end = min(len(data), at + chance.choice([0, 0, 1, 7, 300]))
            data[at:end] = chance.choice(TOKENS) if chance.random() < 0.7 else data[:at][-99:]
        with suppress(WorkbenchError):
            wb.explain_log(bytes(data))._repr_html_()
            explained += 1
        if turn == WARM:
            memory, _ = held()
    assert explained
    assert held()[0] - memory < MOST_GROWTH_BYTES
