"""Any config.json gives a model or a ConfigError, quickly, and touches nothing while it is read."""

from __future__ import annotations

import contextlib
import copy
import json
import math
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from tests.groups import in_groups
from tests.models.configs import FAMILIES, bamba, llama, nemotron_h
from workbench.core.errors import ConfigError, Refused
from workbench.core.platforms import PLATFORMS
from workbench.models import load_model
from workbench.models.json_file import MAX_BYTES, parse_config
from workbench.scenario import Scenario
from workbench.scenario.resolution import resolve

LIMIT_SECONDS = 0.05
SETTINGS = [
    {},
    {"kv_cache_dtype": "nvfp4"},
    {"kv_cache_dtype": "turboquant_3bit_nc", "tensor_parallel": 3},
    {"enable_prefix_caching": True, "mamba_block_size": 1000, "platform": "cpu"},
    {"platform": "xpu", "num_speculative_tokens": 5, "dtype": "float32"},
    {"platform": "rocm", "tensor_parallel": 1024, "block_size": 7},
    {"rules": "before-37467", "platform": "xpu", "max_model_len": 1},
]


def checked_code(error):
    """The code of an error that also has a readable message and a place."""
    assert error.message
    assert len(error.message) < 3000
    assert error.field in {"", "model"} or error.field.startswith("/")
    return error.code


def outcome(config, settings=()):
    """What reading and resolving `config` leads to, in one word; any other exception passes on."""
    try:
        model = load_model(config)
    except ConfigError as error:
        return checked_code(error)
    assert model.layers
    for changes in settings:
        try:
            plan = resolve(Scenario(model=config, **changes))
        except Refused:
            continue
        assert plan.block_size >= 1
        json.dumps(plan.to_dict())
    return "model"


def too_slow(config, seconds=LIMIT_SECONDS):
    """Whether reading takes longer, in this thread's own time, three times in a row."""
    for _ in range(3):
        start = time.thread_time()
        outcome(config)
        if time.thread_time() - start <= seconds:
            return False
    return True


def seconds_of_json(text):
    """What JSON alone takes on this machine: a file may have 75,000 entries."""
    start = time.thread_time()
    with contextlib.suppress(ValueError, RecursionError):
        json.loads(text)
    return time.thread_time() - start


NUMBERS = st.sampled_from(
    [0, -0.0, 1, -1, 2, 3, 0.5, 1e-9, 16.0, 2**31, 2**40, 2**63, -(2**64), 10**4000, 1e308]
) | st.sampled_from([math.nan, math.inf, -math.inf])
WORDS = st.sampled_from(
    [
        "",
        "128",
        "auto",
        "mamba",
        "attention",
        "../../etc/passwd",
        "<img onerror=alert(1)>",
        "\ud800",
        "\0",
        "M*-E",
        "float32",
        "nemotron_h",
    ]
)
JUNK = st.recursive(
    st.none() | st.booleans() | NUMBERS | WORDS | st.integers() | st.text(max_size=5),
    lambda children: (
        st.lists(children, max_size=4) | st.dictionaries(WORDS | st.text(max_size=5), children)
    ),
    max_leaves=8,
)
EXTRA = {
    "auto_map": {"AutoConfig": "evil.Evil"},
    "_name_or_path": "../../secret",
    "rope_scaling": {"rope_type": "yarn", "factor": 2, "original_max_position_embeddings": 4096},
    "rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 2.0}},
    "quantization_config": {"quant_method": "modelopt", "kv_cache_scheme": {"num_bits": 8}},
    "architectures": ["Model"],
    "sliding_window": 128,
    "use_sliding_window": False,
    "layer_types": ["attention"],
    "n_head_kv": 3,
    "index_topk": 2048,
    "model_max_length": 10,
}
"""Fields that readers look at and that few of the small configs have."""


def objects_in(value):
    """Every container of a config, itself first."""
    if isinstance(value, dict | list):
        yield value
        for child in value.values() if isinstance(value, dict) else value:
            yield from objects_in(child)


@st.composite
def mutated_configs(draw):
    """A valid config with a few of its places changed, removed, or swapped."""
    builders = st.sampled_from(list(FAMILIES.values()))
    config = copy.deepcopy(draw(builders)())
    extra = draw(st.lists(st.sampled_from(list(EXTRA)), max_size=3, unique=True))
    config.update({key: copy.deepcopy(EXTRA[key]) for key in extra})
    for _ in range(draw(st.integers(1, 4))):
        places = [place for place in objects_in(config) if place]
        if not places:
            break
        place = draw(st.sampled_from(places))
        key = draw(st.sampled_from(list(place) if isinstance(place, dict) else range(len(place))))
        match draw(st.sampled_from(["set", "junk", "remove", "wrap", "self"])):
            case "set":
                place[key] = draw(NUMBERS | WORDS | st.integers(-2, 4096))
            case "junk":
                place[key] = draw(JUNK)
            case "remove":
                del place[key]
            case "wrap":
                place[key] = draw(st.sampled_from([[place[key]], {"a": place[key]}]))
            case "self":
                place[key] = copy.deepcopy(draw(builders)())
    return config


@given(mutated_configs(), st.sampled_from(SETTINGS))
def test_a_mutated_config_gives_a_model_or_a_typed_error(config, settings):
    event(outcome(config, [settings]))


@given(
    st.sampled_from(list(FAMILIES)),
    st.dictionaries(st.sampled_from([*bamba(), *nemotron_h(), *EXTRA, "text_config"]), JUNK),
)
def test_any_object_gives_a_model_or_a_typed_error(family, config):
    event(outcome({"model_type": family, **config}, SETTINGS[:1]))


@given(mutated_configs(), st.data())
def test_damaged_bytes_give_a_model_or_a_typed_error(config, data):
    content = bytearray(json.dumps(config, default=str).encode("utf-8", "surrogatepass"))
    for _ in range(data.draw(st.integers(0, 5))):
        position = data.draw(st.integers(0, len(content) - 1))
        content[position] = data.draw(st.integers(0, 255))
    content = content[: data.draw(st.integers(0, len(content)) | st.just(len(content)))]
    try:
        parsed = parse_config(bytes(content), "config.json")
    except ConfigError as error:
        event(error.code)
        return
    event(outcome(parsed, SETTINGS[:1]))


def nested(depth, last=1):
    value = last
    for _ in range(depth):
        value = [value]
    return value


def shared(depth):
    """A list of two references to a list of two references ...: small, and 2 ** depth paths."""
    value = []
    for _ in range(depth):
        value = [value, value]
    return value


def cyclic(branches):
    config = llama()
    config.update({f"self_{number}": config for number in range(branches)})
    return config


def cyclic_list():
    value = []
    value.append(value)
    return llama(layer_types=value)


HOSTILE = {
    "deep-lists": lambda: llama(other=nested(10**4)),
    "deep-name": lambda: llama(_name_or_path=nested(10**4)),
    "deep-text-config": lambda: {"text_config": nested(10**4)},
    "shared-25-levels": lambda: llama(other=shared(25)),
    "shared-60-levels": lambda: llama(other=shared(60)),
    "cyclic": lambda: cyclic(1),
    "cyclic-twice": lambda: cyclic(2),
    "cyclic-30-times": lambda: cyclic(30),
    "cyclic-list": cyclic_list,
    "text-config-of-itself": lambda: {"text_config": cyclic(1)},
    "text-config-in-text-config": lambda: {"text_config": {"text_config": llama()}},
    "pattern-of-1e6": lambda: nemotron_h(hybrid_override_pattern="M*" * 500_000),
    "list-of-1e6": lambda: bamba(attn_layer_indices=[0] * 10**6),
    "words-of-1e6": lambda: llama(layer_types=["full_attention"] * 10**6),
    "type-of-1e6": lambda: llama(model_type="n" * 10**6),
    "dtype-of-1e6": lambda: llama(dtype="b" * 10**6),
    "number-that-is-a-list-of-1e6": lambda: llama(num_attention_heads=[1] * 10**6),
    "number-that-is-an-object": lambda: llama(
        num_attention_heads={str(number): number for number in range(10**5)}
    ),
    "similar-names": lambda: {
        "model_type": "llama",
        **{f"num_hidden_layer{'s' * 60}{number}": 1 for number in range(5000)},
    },
    "huge-integer": lambda: llama(num_attention_heads=10**5000),
    "huge-name": lambda: llama(_name_or_path=10**5000),
    "huge-rope-type": lambda: llama(rope_scaling={"rope_type": 10**5000}),
    "huge-method": lambda: llama(quantization_config={"quant_method": 10**5000}),
    "keys-that-are-no-strings": lambda: {10**5000: 1, None: 2, (1, 2): 3, "model_type": "llama"},
    "zero-bytes-a-token": lambda: FAMILIES["zamba2"](hidden_size=8, n_mamba_heads=4),
    "tiny-rope-factor": lambda: llama(rope_scaling={"rope_type": "linear", "factor": 1e-9}),
    "tiny-expansion": lambda: FAMILIES["jamba"](mamba_expand=1e-9),
    "largest-sizes": lambda: FAMILIES["jamba"](mamba_expand=2**40, hidden_size=2**40),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_object_is_read_in_time(name):
    config = HOSTILE[name]()
    outcome(config)
    assert not too_slow(config)


@pytest.mark.parametrize("name", sorted(set(HOSTILE) - {"keys-that-are-no-strings"}))
def test_a_hostile_object_resolves_or_is_refused(name):
    outcome(HOSTILE[name](), SETTINGS)


FILES = {
    "duplicates-at-the-end": lambda: (
        "{" + "".join(f'"k{number}":0,' for number in range(70_000)) + '"z":0,"z":1}'
    ),
    "many-lists": lambda: '{"model_type": "llama", "x": [' + "[]," * 340_000 + "[]]}",
    "many-objects": lambda: '{"model_type": "llama", "x": [' + "{}," * 340_000 + "{}]}",
    "many-numbers": lambda: '{"model_type": "llama", "x": [' + "0," * 500_000 + "0]}",
    "many-keys": lambda: "{" + ",".join(f'"k{number}":0' for number in range(80_000)) + "}",
    "one-string": lambda: '{"model_type": "' + "x" * 1_000_000 + '"}',
    "one-digit-too-many": lambda: '{"a": ' + "1" * 1_000_000 + "}",
    "exponent": lambda: '{"model_type": "llama", "num_attention_heads": 1e400}',
    "brackets": lambda: "[" * 1_000_000,
    "escapes": lambda: '{"model_type": "' + "\\u0041" * 170_000 + '"}',
}


@pytest.mark.parametrize("name", FILES)
def test_a_hostile_file_is_read_in_time(name, tmp_path):
    path = tmp_path / "config.json"
    path.write_text(FILES[name](), encoding="utf-8")
    assert path.stat().st_size <= MAX_BYTES
    assert outcome(path) != "model"
    assert not too_slow(path, LIMIT_SECONDS + 3 * seconds_of_json(path.read_text("utf-8")))


@pytest.mark.parametrize("name", FILES)
def test_a_hostile_file_takes_little_memory(name, tmp_path):
    path = tmp_path / "config.json"
    path.write_text(FILES[name](), encoding="utf-8")
    tracemalloc.start()
    try:
        outcome(path)
        assert tracemalloc.get_traced_memory()[1] < 50_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("size", [MAX_BYTES + 1, 50_000_000])
def test_a_file_that_is_too_large_is_not_even_read(tmp_path, size):
    path = tmp_path / "config.json"
    path.write_bytes(b" " * size)
    assert outcome(path) == "config_too_large"
    assert not too_slow(path)


AUDITED = """
import json, sys, time
sys.path.insert(0, {root!r})
from tests.models.configs import FAMILIES
from workbench.core.errors import WorkbenchError
from workbench.models import read_model
from workbench.models.json_file import parse_config
from workbench.scenario import Scenario
from workbench.scenario.resolution import resolve

texts = [json.dumps({{**builder(), "auto_map": {{"AutoConfig": "evil.Evil"}}}}).encode()
         for builder in FAMILIES.values()]
texts += [b"{{", b"[]", b'{{"model_type": "evil"}}', texts[0][:-9], texts[0].replace(b"32", b"x")]
seen, watching = [], False

def hook(event, arguments):
    if watching and event.split(".")[0] in (
        "import", "open", "socket", "subprocess", "os", "shutil", "exec", "compile", "pickle",
        "tempfile", "urllib", "http", "ctypes", "marshal", "sqlite3", "webbrowser",
    ):
        seen.append((event, str(arguments)[:200]))

sys.addaudithook(hook)
# The package's own tables are read once.
resolve(Scenario(model={{**FAMILIES["llama"](), "num_hidden_layers": 1}}))
watching = True
for text in texts:
    try:
        model = read_model(parse_config(text, "config.json"), "x")
        resolve(Scenario(model=json.loads(text))).to_dict()
    except WorkbenchError:
        pass
watching = False
print(len(texts), json.dumps(seen))
"""


def test_reading_imports_opens_connects_and_starts_nothing():
    """The audit hook sees imports, files, sockets and processes of the whole interpreter."""
    root = str(Path(__file__).parents[2])
    command = [sys.executable, "-c", AUDITED.format(root=root)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=root)
    count, seen = done.stdout.split(" ", 1)
    assert int(count) == len(FAMILIES) + 5
    assert json.loads(seen) == []


def test_reading_a_file_opens_that_file_only(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(llama(auto_map={"AutoConfig": "evil.Evil"})), encoding="utf-8")
    before = sorted(tmp_path.iterdir())
    code = (
        "import sys\n"
        "from workbench.models import load_model\n"
        "load_model('llama-3.1-8b')\n"
        "opened = []\n"
        "watch = {'open', 'import', 'socket.connect', 'subprocess.Popen'}\n"
        "sys.addaudithook(lambda event, args: event in watch and opened.append(str(args[0])))\n"
        f"load_model({str(path)!r})\n"
        "print(*opened)\n"
    )
    command = [sys.executable, "-c", code]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=root)
    # The reader looks at what it opened by its descriptor, before it reads.
    assert [name for name in done.stdout.split() if not name.isdigit()] == [str(path)]
    assert sorted(tmp_path.iterdir()) == before


@in_groups
@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_resolves_on_every_platform(name, platform):
    plan = resolve(Scenario(model=FAMILIES[name](), platform=platform))
    assert plan.block_size >= 16
