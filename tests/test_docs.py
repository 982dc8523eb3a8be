"""Code in the documentation runs as it stands."""

import re
from pathlib import Path

import pytest

import headway
from headway.config.model_sets import model_set_names

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"


def blocks_of(page, language="python"):
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.slow
def test_the_python_of_the_readme_runs(tmp_path, monkeypatch, capsys):
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    (program,) = blocks_of(ROOT / "README.md")
    names: dict[str, object] = {}
    exec(compile(program, "README.md", "exec"), names)
    assert "lucas: " in capsys.readouterr().out
    assert (tmp_path / "out" / "slower" / "report.html").is_file()
    assert names["slower"].hardware.dram.bandwidth < names["scenario"].hardware.dram.bandwidth


def test_the_policy_of_the_guide_is_twenty_lines_and_its_test_passes():
    policy, test = blocks_of(DOCS / "write-a-policy.md")
    assert len(policy.strip().splitlines()) <= 20
    names: dict[str, object] = {}
    exec(compile(policy, "write-a-policy.md", "exec"), names)
    exec(compile(test, "write-a-policy.md", "exec"), names)
    assert headway.policies.make("weighted-sjf").__class__.__name__ == "WeightedSjf"


def test_the_scenario_and_the_hardware_of_the_guide_are_accepted(tmp_path):
    scenario, arrivals, preset, hardware = blocks_of(DOCS / "scenario.md", "yaml")
    (tmp_path / "my-chip.yaml").write_text(hardware)
    (tmp_path / "s.yaml").write_text(scenario)
    (tmp_path / "mine.yaml").write_text(scenario.replace("stream-hetero4 ", "my-chip.yaml"))
    (tmp_path / "changed.yaml").write_text(re.sub(r"^hardware: .*\n", preset, scenario, flags=re.MULTILINE))

    assert headway.Scenario.load(tmp_path / "s.yaml").device().name == "stream-hetero4"
    assert headway.Scenario.load(tmp_path / "mine.yaml").device().name == "my-chip"
    assert headway.Scenario.load(tmp_path / "changed.yaml").device().dram_bandwidth_bytes_s == 8e9
    short = headway.Scenario.load(tmp_path / "s.yaml").with_overrides({"duration": "100 ms", "warmup": "0 s"})
    assert headway.simulate(short).summary.total.requests > 0

    (tmp_path / "conversation.csv").write_text(
        "timestamp_ms,input_length,output_length\n0,900,1\n3000,7000,1\n"
    )
    (tmp_path / "more.yaml").write_text(f"name: more\nhardware: moca8\nrequests: 40\n{arrivals}")
    assert headway.simulate(headway.Scenario.load(tmp_path / "more.yaml")).summary.total.requests > 0


def test_the_suite_of_the_guide_is_accepted(tmp_path):
    (file,) = blocks_of(DOCS / "suites.md", "yaml")
    (tmp_path / "suite.yaml").write_text(file)
    suite = headway.config.load_suite(tmp_path / "suite.yaml")
    assert len(suite.cells()) == 16
    assert suite.cells()[0].name in (DOCS / "suites.md").read_text(encoding="utf-8")


def test_the_guide_names_the_shipped_suites_sets_and_presets():
    text = (DOCS / "suites.md").read_text(encoding="utf-8")
    told = dict(re.findall(r"^\| `([a-z-]+)` \| (\d+) \|", text, re.MULTILINE))
    suites = {name: headway.config.load_suite(name) for name in headway.config.suite_names()}
    assert told == {name: str(len(suite.cells())) for name, suite in suites.items()}
    assert [name for name in model_set_names() if f"`{name}`" not in text] == []


PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted(DOCS.glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page):
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_every_page_is_in_the_index():
    index = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [page.name for page in DOCS.glob("*.md") if f"docs/{page.name}" not in index] == []
