"""What the log doctor's page gets, and its links: no line of a log, and no trust in a link."""

import json
from pathlib import Path

import pytest

from workbench.site import log as doctor

LOGS = Path(__file__).parent / "data" / "logs"
SECRET = "sk-not-to-be-shared"
NOISE = f"\nINFO api_key: {SECRET}\n"


@pytest.mark.sampled(5)
@pytest.mark.parametrize("path", sorted(LOGS.glob("*.log")), ids=lambda path: path.stem)
def test_a_link_has_no_line_of_the_log(path):
    log = path.read_text("utf-8") + NOISE
    found = json.loads(doctor.answer(json.dumps({"log": log, "model": ""})))
    if not found["link"]:  # not one of vLLM
        assert "This looks like a log of" in found["html"]
        return
    again = json.loads(doctor.answer(json.dumps({"link": found["link"]})))
    assert again["link"] == found["link"]
    report = json.loads(doctor.unpacked(found["link"].removeprefix(doctor.REPORT)))
    texts = {line["text"] for one in [report, *report["servers"]] for line in one["lines"]}
    assert texts <= {doctor.NO_TEXT}
    assert SECRET not in json.dumps(report)
    assert again["scenario"] == found["scenario"]


@pytest.mark.parametrize(
    "report", [[], {}, "word", {"scenario": 1}, {"servers": [{}]}, 10**30, [[[]]] * 9]
)
def test_a_forged_link_is_a_clear_error(report):
    link = doctor.REPORT + doctor.packed(json.dumps(report))
    for damaged in (link, link[:-3], link + "%", doctor.REPORT):
        found = json.loads(doctor.answer(json.dumps({"link": damaged})))
        assert "The link is damaged" in found["html"]
        assert found["link"] == ""
