"""The file of a device's constants: it is read as it was written, and mistakes are one line."""

from __future__ import annotations

import json
from math import inf
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ringtree.simulate.device.constants import RANGES, ConstantsFile, DeviceConstants, dumps, load

GOOD = {"launch_s": 1e-5, "step_s": 1e-6, "block_Bps": 2e10}


def drawn(name: str) -> st.SearchStrategy[float]:
    least, most = RANGES[name]
    if name in ("piece_nbytes", "slices", "slots"):
        return st.integers(int(least), int(most))
    return st.floats(least, most, allow_nan=False)


CONSTANTS = st.builds(DeviceConstants, **{name: drawn(name) for name in RANGES})


@settings(max_examples=25)
@given(protocols=st.dictionaries(st.sampled_from(["Simple", "LL"]), CONSTANTS, min_size=1))
def test_a_file_is_read_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, protocols: dict[str, DeviceConstants]
) -> None:
    path = tmp_path_factory.getbasetemp() / "constants.json"
    path.write_text(dumps(ConstantsFile(protocols, "mi300x8")))
    assert load(path) == ConstantsFile(protocols, "mi300x8")


def test_unlimited_rates_are_left_out() -> None:
    assert "reduce_Bps" not in dumps(ConstantsFile({"LL": DeviceConstants(1e-5, 1e-6, 1e9, reduce_Bps=inf)}))


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ([], "expected a device's constants, as `ringtree simulate --fit` writes them"),
        ({"topology": "x", "protocols": {}}, "protocols is {}; expected an object of constants by name"),
        ({"topology": 3, "protocols": {"LL": GOOD}}, "topology is 3; expected a text, as of --topology"),
        ({"topology": "x", "protocols": {"LL": []}}, "protocol LL is []; expected an object of constants"),
        ({"topology": "x", "protocols": {"LL": GOOD | {"speed": 1}}}, "LL has 'speed'; expected only launch_s"),
        ({"topology": "x", "protocols": {"LL": {"launch_s": 1e-5, "step_s": 1e-6}}}, "protocol LL lacks 'block_Bps'"),
        ({"topology": "x", "protocols": {"LL": GOOD | {"slices": 1.5}}}, "slices is 1.5; expected a whole number"),
        ({"topology": "x", "protocols": {"LL": GOOD | {"step_s": True}}}, "step_s is true; expected a number"),
        ({"topology": "x", "protocols": {"LL": GOOD | {"link_share": 2}}}, "link_share is 2; expected 1e-06 to 1"),
        ({"topology": "x", "protocols": {"LL": GOOD | {"block_Bps": 0}}}, "block_Bps is 0; expected 1 to 1e+15"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line(tmp_path: Path, document: object, problem: str) -> None:
    path = tmp_path / "constants.json"
    path.write_text(json.dumps(document))
    with pytest.raises(ValueError) as error:
        load(path)
    assert str(path) in str(error.value) and problem in str(error.value) and "\n" not in str(error.value)


def test_a_protocol_that_is_missing_is_named() -> None:
    content = ConstantsFile({"LL": DeviceConstants(1e-5, 1e-6, 1e9)})
    with pytest.raises(ValueError, match=r"a\.json: no constants of protocol Simple, .* it has LL"):
        content.of("Simple", "a.json")
