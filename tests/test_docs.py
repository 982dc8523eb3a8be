"""Code in the documentation runs as it stands."""

import re
from pathlib import Path

import headway

DOCS = Path(__file__).parents[1] / "docs"


def blocks_of(page):
    return re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), re.DOTALL)


def test_the_policy_of_the_guide_is_twenty_lines_and_its_test_passes():
    policy, test = blocks_of("write-a-policy.md")
    assert len(policy.strip().splitlines()) <= 20
    names: dict[str, object] = {}
    exec(compile(policy, "write-a-policy.md", "exec"), names)
    exec(compile(test, "write-a-policy.md", "exec"), names)
    assert headway.policies.make("weighted-sjf").__class__.__name__ == "WeightedSjf"
