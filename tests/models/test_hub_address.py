"""Addresses in the environment that no client can use: one short error, with or without library."""

from __future__ import annotations

import pytest

from tests.models.test_hub import batch
from workbench.core.errors import ConfigError
from workbench.models import hub, hub_file, load_model

URLS = ("not a url", "", "x", "http://[", "http://", "http://h:99999", "http://h:x", "http://...")
WRONG = [
    *(("HF_ENDPOINT", url) for url in (*URLS, "ftp://x", "file:///etc", "http://ho st")),
    *(("HTTPS_PROXY", url) for url in URLS[3:]),
    *(("https_proxy", url) for url in ("not a url", "http://me:secret@h:99999", "ftp://x")),
    *(("ALL_PROXY", url) for url in ("socks://127.0.0.1:1080", "http://" + "q " * 5000)),
]


@pytest.fixture(params=["library", "no library"])
def clean(request, monkeypatch):
    if request.param == "no library":
        monkeypatch.setattr(hub_file, "has_library", lambda: False)
    monkeypatch.setattr(hub_file, "cached_config", lambda _hub_id: None)
    monkeypatch.setattr(hub, "_failures", {})
    names = ("https_proxy", "http_proxy", "all_proxy", "no_proxy", "HF_ENDPOINT", "HF_HUB_OFFLINE")
    for name in (*names, *map(str.upper, names)):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(hub_file, "is_offline", lambda: False)


@pytest.mark.usefixtures("clean")
@pytest.mark.parametrize(("name", "url"), WRONG)
def test_a_wrong_address_is_named_with_what_is_allowed(name, url, monkeypatch):
    monkeypatch.setenv(name, url)
    with pytest.raises(ConfigError) as caught:
        load_model("owner/model")
    message = caught.value.message
    assert caught.value.code == "invalid_address"
    assert message.startswith(f"Invalid {name} '")
    assert "Expected scheme://host" in message
    assert "unset it" in message
    assert "secret" not in message
    assert len(message) < 320


@pytest.mark.usefixtures("clean")
def test_a_proxy_without_a_scheme_is_one_of_http(monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", "me:secret@127.0.0.1:1")
    with pytest.raises(ConfigError, match=r"huggingface\.co through the proxy 127\.0\.0\.1\)"):
        load_model("owner/model")


@pytest.mark.usefixtures("clean")
def test_offline_no_proxy_is_read(monkeypatch):
    monkeypatch.setattr(hub_file, "is_offline", lambda: True)
    monkeypatch.setenv("HTTPS_PROXY", "http://[")
    with pytest.raises(ConfigError, match="HF_HUB_OFFLINE is set"):
        load_model("owner/model")


@pytest.mark.slow
@pytest.mark.parametrize("endpoint", ["http://[", "http://h:x", "not a url"])
def test_a_batch_in_a_process_of_its_own_answers_every_line(endpoint):
    # The library fails while it is imported, which only a new process does.
    answers, errors = batch("owner/one", "bamba-9b", HF_ENDPOINT=endpoint)
    assert answers[0]["error"]["code"] == "invalid_address"
    assert "block_size" in answers[1]
    assert "Error importing" not in errors
