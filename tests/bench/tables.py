"""`build/bench/autoscaler.jsonl` as tables in `docs/autoscaler/figures.md`: one row a figure, one column a policy."""

from __future__ import annotations

import json
import pathlib

ROOT = pathlib.Path(__file__).parents[2]
POLICIES = (
    "tiresias",
    "optimus",
    "equal",
    "blind",
    "blind-unmoved",
    "ours",
    "ours-unmoved",
    "ours-learned",
    "ours-unmoved-learned",
    "ours-spot-minimum",
)
HEAD = """# The autoscaler's figures

Written by `make bench-autoscaler`; what the figures mean and where they fall short stands in [README.md](README.md).

"""


def main() -> None:
    """Read, pivot, write."""
    lines = [json.loads(line) for line in (ROOT / "build/bench/autoscaler.jsonl").read_text().splitlines()]
    rows: dict[tuple[str, str], dict[str, float]] = {}
    for line in lines:
        rows.setdefault((line["figure"], line["unit"]), {})[line["policy"]] = line["value"]
    used = [policy for policy in POLICIES if any(policy in row for row in rows.values())]
    text = [f"| figure | unit | {' | '.join(used)} |", "|---|---|" + "---:|" * len(used)]
    for (figure, unit), row in sorted(rows.items()):
        cells = (f"{row[policy]:,.2f}".removesuffix(".00") if policy in row else "" for policy in used)
        text.append(f"| {figure} | {unit} | {' | '.join(cells)} |")
    folder = ROOT / "docs/autoscaler"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "figures.md").write_text(HEAD + "\n".join(text) + "\n")


if __name__ == "__main__":
    main()
