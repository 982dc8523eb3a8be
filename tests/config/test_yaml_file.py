"""YAML with line numbers: what is read, and what is refused on which line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from headway.config.yaml_file import parse_yaml, place_text, read_yaml
from headway.core.errors import HeadwayError

TEXT = """\
# a comment
name: three
tenants:
  - name: camera
    sla: {deadline: 20 ms,
          percentile: 99}
  - name: search
"""


def test_data_and_lines() -> None:
    document = parse_yaml(TEXT, "a.yaml")
    assert document.data == {
        "name": "three",
        "tenants": [
            {"name": "camera", "sla": {"deadline": "20 ms", "percentile": 99}},
            {"name": "search"},
        ],
    }
    assert document.where(("name",)) == "a.yaml:2: name"
    assert document.where(("tenants", 0, "sla", "percentile")) == "a.yaml:6: tenants[0].sla.percentile"
    assert document.where(("tenants", 1)) == "a.yaml:7: tenants[1]"


def test_a_place_that_is_not_there_has_the_line_around_it() -> None:
    document = parse_yaml(TEXT, "a.yaml")
    assert document.where(("tenants", 1, "sla", "deadline")) == "a.yaml:7: tenants[1].sla.deadline"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("no", "no"),
        ("on", "on"),
        ("1:30", "1:30"),
        ("2024-01-01", "2024-01-01"),
        ("012", "012"),
        ("1e3", 1000.0),
        ("-2.5", -2.5),
        ("4.", 4.0),
        (".5", 0.5),
        ("true", True),
        ("~", None),
        ("1_000", "1_000"),
        ("-", [None]),
        ("'7'", "7"),
    ],
)
def test_plain_values_mean_what_they_look_like(text: str, value: object) -> None:
    found = parse_yaml(f"{text}\n", "a.yaml").data
    assert found == value
    assert type(found) is type(value)


def test_an_alias_repeats_its_value() -> None:
    document = parse_yaml("a: &x {b: 1}\nc: *x\n", "a.yaml")
    assert document.data == {"a": {"b": 1}, "c": {"b": 1}}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: 2\na: 3\n", "a.yaml:3: a: key given twice, first on line 1"),
        ("x:\n  - {a: 1, a: 2}\n", "a.yaml:2: x[0].a: key given twice, first on line 2"),
        ("a: 1\n1: 2\n", "a.yaml:2: file: a key that is not text; put it in quotes"),
        ("a:\n  [1, 2]: 3\n", "a.yaml:2: a: a key that is not text"),
        ("a: [1, 2\nb: 3\n", "a.yaml:2: not valid YAML"),
        ("a: 1\n\tb: 2\n", "a.yaml:2: not valid YAML"),
        ("a: 'open\n", "a.yaml:2: not valid YAML"),
        ("a: 1\n---\nb: 2\n", "a.yaml:2: not valid YAML"),
        ("a: \x01\n", "a.yaml: not valid YAML"),
        ("", "a.yaml: the file is empty"),
        ("# nothing\n", "a.yaml: the file is empty"),
        ("a: !!python/object/apply:os.getcwd []\n", "a.yaml:1: a: tag"),
        ("a: 1\nb: !!binary aGk=\n", "a.yaml:2: b: tag"),
        ("b: !!int x\n", "a.yaml:1: b: not a usable value"),
        (f"b: {'9' * 5000}\n", "a.yaml:1: b: not a usable value"),
        ("a: &x\n  b: *x\n", "a.yaml:1: a.b: the value contains itself"),
        ("[" * 5000 + "]" * 5000 + "\n", "a.yaml: not usable YAML: nested too deeply"),
        ("a: *nobody\n", "a.yaml:1: not valid YAML"),
    ],
)
def test_refused_with_its_line(text: str, message: str) -> None:
    with pytest.raises(HeadwayError, match=f"^{re.escape(message)}"):
        parse_yaml(text, "a.yaml")


def test_aliases_do_not_expand_without_end() -> None:
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    for level in range(1, 10):
        lines.append(f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]")
    with pytest.raises(HeadwayError, match=r"a\.yaml:1: more than 200000 values"):
        parse_yaml("\n".join(lines), "a.yaml")


def test_file_errors_name_the_file(tmp_path: Path) -> None:
    missing, binary = tmp_path / "missing.yaml", tmp_path / "binary.yaml"
    binary.write_bytes(b"a: \xff\xfe")
    with pytest.raises(HeadwayError, match=re.escape(f"{missing}: No such file or directory")):
        read_yaml(missing)
    with pytest.raises(HeadwayError, match=re.escape(f"{binary}: not a text file in UTF-8 (byte 3)")):
        read_yaml(binary)
    with pytest.raises(HeadwayError, match=re.escape(f"{tmp_path}: Is a directory")):
        read_yaml(tmp_path)


def test_place_text() -> None:
    assert place_text(("tenants", 0, "sla")) == "tenants[0].sla"
    assert place_text(()) == ""
