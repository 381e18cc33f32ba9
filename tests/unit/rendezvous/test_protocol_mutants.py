"""What the explorer is worth: a fault seeded into each rule of the protocol is found, with the shortest way to it."""

from __future__ import annotations

import pytest

from support.rendezvous_explorer import Explorer, Report
from support.rendezvous_mutants import MUTANTS, REDUNDANT, Mutant


def walked(mutant: Mutant, patching: pytest.MonkeyPatch) -> Report:
    for patch in mutant.patches:
        patching.setattr(*patch)
    return Explorer(mutant.shape).walk()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: f"{m.rule}: {m.what}")
def test_a_seeded_fault_is_found(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    report = walked(mutant, monkeypatch)
    print(report)
    assert report.broken


@pytest.mark.parametrize("mutant", REDUNDANT, ids=lambda m: f"{m.rule}: {m.what}")
def test_a_rule_with_a_second_lock_is_held_by_the_other(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    report = walked(mutant, monkeypatch)
    assert not report.broken, f"no longer redundant: {report}"
