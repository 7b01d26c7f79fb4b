"""Machines as JSON: nothing is lost, and other files are refused in one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringtree.machines import catalogue
from ringtree.machines.files import machine_json
from ringtree.machines.machine import Device, DeviceKind, Link, LinkKind, Machine, Note, NoteKind

WORDS = st.text(st.characters(codec="utf-8"), max_size=8).filter(str.isprintable)
NUMBERS = st.floats(0, 1e290)


@st.composite
def machines(draw: st.DrawFn) -> Machine:
    names = draw(st.lists(WORDS, min_size=1, max_size=5, unique=True))
    kinds, whole = st.sampled_from(list(DeviceKind)), st.integers(0, 2**31 - 1)
    numa, width = st.integers(-1, 2**31 - 1), st.integers(1, 2**31 - 1)
    devices = tuple(
        Device(
            name, draw(kinds), draw(WORDS), draw(WORDS), draw(WORDS), draw(numa), draw(whole), draw(st.booleans()),
            draw(NUMBERS), draw(NUMBERS), draw(st.dictionaries(WORDS, WORDS, max_size=2)),
        )
        for name in names
    )  # fmt: skip
    ends = st.tuples(*[st.integers(0, len(names) - 1)] * 2).filter(lambda e: e[0] != e[1])
    speeds = st.floats(1e-300, 1e290) | st.just(float("inf"))
    links = [
        Link(*draw(ends), draw(st.sampled_from(list(LinkKind))), draw(speeds), draw(NUMBERS), draw(whole), draw(width))
        for _ in range(draw(st.integers(0, 4)) if len(names) > 1 else 0)
    ]
    notes = draw(st.lists(st.builds(Note, st.sampled_from(list(NoteKind)), WORDS, WORDS), max_size=2))
    return Machine(draw(WORDS), devices, tuple(links), tuple(notes))


def same(a: Machine, b: Machine) -> bool:
    return (a.name, a.devices, a.links, a.notes) == (b.name, b.devices, b.links, b.notes)


@given(machines())
def test_any_machine_is_read_back_exactly(machine: Machine) -> None:
    assert same(machine_json.parse(machine_json.text(machine), "m.json"), machine)


@pytest.mark.parametrize("name", catalogue.NAMES)
def test_the_catalogue_is_read_back_exactly(name: str, tmp_path: Path) -> None:
    machine, path = catalogue.machine(name), tmp_path / "m.json"
    machine_json.write(machine, path)
    assert same(machine_json.read(path), machine)


GPU = {"name": "gpu0", "kind": "gpu"}
CPU = {"name": "cpu0", "kind": "cpu"}
LINK = {"source": "gpu0", "target": "cpu0", "kind": "pcie", "bandwidth_Bps": 1e9}
CASES: list[tuple[object, str]] = [
    ([], "a list; expected a machine: an object"),
    ({"devices": []}, "expected a machine: an object with machine"),
    ({"machine": 1}, "machine is 1; expected a text"),
    ({"machine": "m", "nodes": []}, 'has "nodes"; expected only machine, devices, links, notes'),
    ({"machine": "m", "devices": {}}, "devices is an object; expected a list"),
    ({"machine": "m", "devices": [1]}, "devices[0] is 1; expected an object"),
    ({"machine": "m", "devices": [{"name": "a"}]}, "devices[0] lacks 'kind'"),
    ({"machine": "m", "devices": [{**GPU, "kind": "npu"}]}, 'devices[0]: kind is "npu"; expected one of gpu, cpu'),
    ({"machine": "m", "devices": [{**GPU, "kind": []}]}, "devices[0]: kind is a list; expected one of"),
    ({"machine": "m", "devices": [{**GPU, "sm": 80.5}]}, "devices[0]: sm is 80.5; expected a whole number"),
    ({"machine": "m", "devices": [{**GPU, "sm": 2**40}]}, "expected a whole number of at least 0, of 32 bits"),
    ({"machine": "m", "devices": [{**GPU, "sm": -80}]}, "devices[0]: sm is -80; expected a whole number of at least 0"),
    (
        {"machine": "m", "devices": [{**GPU, "numa": -7}]},
        "devices[0]: numa is -7; expected a whole number of at least -1",
    ),
    *(
        (
            {"machine": "m", "devices": [{**GPU, "attributes": {"memory_Bps": text}}]},
            f'memory_Bps is "{text}"; expected bytes',
        )
        for text in ("0", "-1", "nan", "fast")
    ),
    ({"machine": "m", "devices": [{**GPU, "gdr": 1}]}, "devices[0]: gdr is 1; expected true or false"),
    ({"machine": "m", "devices": [{**GPU, "rate_Bps": "x"}]}, 'devices[0]: rate_Bps is "x"; expected a number'),
    ({"machine": "m", "devices": [{**GPU, "rate_Bps": -1}]}, "rate_Bps is -1; expected a number of at least 0"),
    (
        {"machine": "m", "devices": [GPU, {"name": "nic0", "kind": "nic", "rate_Bps": "inf"}]},
        "devices[1]: rate_Bps is inf; expected the NIC's line rate",
    ),
    ({"machine": "m", "devices": [{**GPU, "name": "a\nb"}]}, "expected a text that can be printed"),
    (
        {"machine": "m", "devices": [{**GPU, "attributes": {"a": 1}}]},
        'devices[0]: attributes: "a" is 1; expected a text',
    ),
    ({"machine": "m", "devices": [{**GPU, "memory": 1}]}, 'devices[0] has "memory"; expected only name, kind'),
    ({"machine": "m", "devices": [GPU, GPU]}, "two devices are named 'gpu0'"),
    ({"machine": "m", "devices": [GPU], "links": [LINK]}, 'links[0]: target is "cpu0"; expected the name of a device'),
    ({"machine": "m", "devices": [GPU], "links": [{**LINK, "target": ["gpu0"]}]}, "links[0]: target is a list"),
    ({"machine": "m", "devices": [GPU], "links": [{**LINK, "target": "gpu0"}]}, "link 0 goes from gpu0 to itself"),
    ({"machine": "m", "devices": [GPU, CPU], "links": [{**LINK, "bandwidth_Bps": 0}]}, "expected a bandwidth above 0"),
    (
        {"machine": "m", "devices": [GPU, CPU], "links": [{**LINK, "width": 0}]},
        "links[0]: width is 0; expected a whole",
    ),
    ({"machine": "m", "devices": [GPU, CPU], "links": [{"source": "gpu0", "target": "cpu0"}]}, "links[0] lacks 'kind'"),
    ({"machine": "m", "notes": [{"kind": "trap"}]}, "notes[0] lacks 'about'"),
    ({"machine": "m", "devices": [GPU] * 10_000}, "devices: 10,000; expected at most"),
]


@pytest.mark.parametrize(("data", "expected"), CASES)
def test_one_line_names_the_file_and_the_element(data: object, expected: str) -> None:
    with pytest.raises(ValueError) as refused:
        machine_json.parse(json.dumps(data), "m.json")
    message = str(refused.value)
    assert message.startswith("m.json: ") and expected in message and "\n" not in message and len(message) < 250


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "nested too deeply"),
        (b'{"machine": "\xff"}', "not text"),
        ('{"machine": %s}' % ("9" * 10_000), "too many digits"),
        ('{"machine": "m", "devices": [{"name": "g", "kind": "gpu", "rate_Bps": NaN}]}', "expected a number"),
        ('{"machine": "m", "devices": [{"name": "g", "kind": "gpu", "rate_Bps": 1e999}]}', "expected a number"),
    ],
)
def test_other_json_than_a_machines_is_refused(text: str | bytes, expected: str) -> None:
    with pytest.raises(ValueError, match=f"^m.json: .*{expected}"):
        machine_json.parse(text, "m.json")
