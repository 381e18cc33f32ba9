"""What people read: numbers agree with their nouns, sizes have their reasons, pods have their names."""

import dataclasses
import pathlib
import re

import pytest

from elasticjob_operator.api import allocation, conditions, status, words
from elasticjob_operator.autoscaler import decision
from elasticjob_operator.core import allocating, deciding, describing, pods, sizing
from elasticjob_rendezvous.round.lease import Progress
from elasticjob_rendezvous.round.record import Phase, Reason
from support.operator_builders import NOW, a_job, a_pod, a_round, held, known_of, running

SOURCES = [path for root in ("operator", "rendezvous") for path in pathlib.Path(root).rglob("*.py")]
COUNT = re.compile(r"\{[^{}]+\} (nodes|pods|failures|disruptions|accelerators|workers|rounds) ?\b")
"""A number that stands before a plural whatever it is. Of slots (`nodes {slots.dump(…)}`) the noun comes first."""


@pytest.mark.parametrize(("number", "text"), [(0, "0 nodes"), (1, "1 node"), (2, "2 nodes")])
def test_a_noun_agrees_with_its_number(number: int, text: str) -> None:
    assert words.counted(number, "node") == text


def test_nodes_are_named_by_their_slots() -> None:
    assert (words.nodes({2}), words.nodes({0, 1, 2, 7})) == ("node 2", "nodes 0-2,7")


@pytest.mark.parametrize("path", SOURCES, ids=str)
def test_no_sentence_has_a_fixed_plural_after_a_number(path: pathlib.Path) -> None:
    assert [line.strip() for line in path.read_text().splitlines() if COUNT.search(line)] == []


def test_a_round_of_one_is_told_in_the_singular() -> None:
    known = known_of(a_round(Phase.OPEN, plan=[0]))

    decision = deciding.decide(running([0], job=a_job(nodes=1, known=known)), NOW)

    assert [e.message for e in decision.events] == ["round 1 has 1 node (0); opened because: Started"]
    told = {c.type: c.message for c in decision.status.conditions}
    assert (told["Running"], told["PodsReady"]) == ("round 1 trains on 1 node", "pods ready: 1 of 1")


@pytest.mark.parametrize(
    ("step", "text"),
    [
        (None, "round 2 trains on 1 node; last failure: node 0 failed with exit code 2 [UserError]: no train.py"),
        (Progress(2, 7, 7, None), "round 2 trains on 1 node"),
    ],
)
def test_a_round_after_a_failure_tells_it_until_it_gets_on(step: Progress | None, text: str) -> None:
    record = a_round(number=2, plan=[0], reason=Reason.WORKERS_FAILED)
    job = a_job(nodes=1, known=known_of(record, last_failure=status.Failure(0, 2, "no train.py", NOW, round=1)))

    decision = deciding.decide(running([0], job=job, record=record, leases=[held(0, arrived=2, progress=step)]), NOW)

    told = conditions.find(decision.status.conditions, conditions.RUNNING)
    assert (told and told.message) == text


def test_a_lost_pod_is_named_and_one_that_is_gone_by_its_node() -> None:
    ending = running(having=[a_pod(0), a_pod(1, deleting=True)])
    gone = running(having=[a_pod(0)])

    told = [[e.message for e in deciding.decide(read, NOW).events if e.reason == "PodLost"] for read in (ending, gone)]

    assert told == [["digits-1-0 is lost"], ["node 1's pod digits-1-* is lost: it was deleted"]]


@pytest.mark.parametrize(
    ("reason", "text"),
    [
        (sizing.SUSPENDED, "spec.suspend is true"),
        (sizing.NODES, "spec.nodes asks for it"),
        ("Preempted", "the autoscaler's decision (Preempted)"),
    ],
)
def test_a_resize_tells_on_whose_word_it_is_done(reason: str, text: str) -> None:
    assert sizing.told(reason) == text


def test_every_event_and_condition_is_documented() -> None:
    core = "".join(path.read_text() for path in SOURCES if "elasticjob_operator" in path.parts)
    reasons = {*re.findall(r'Event\(\s*"(\w+)"', core), *(one.value for one in decision.Reason)}
    kinds = {value for name, value in vars(conditions).items() if name.isupper() and isinstance(value, str)}

    page = pathlib.Path("docs/elasticjob.md").read_text()

    assert [word for word in sorted(reasons | kinds) if f"`{word}`" not in page] == []


def test_a_size_that_a_person_has_set_is_no_event_of_the_autoscaler() -> None:
    pinned = allocation.Allocation(2, allocation.PINNED, "spec.nodes is 2, so the autoscaler leaves it at that")

    known = status.Status(allocation=pinned)

    assert list(allocating.events(status.Status(), known)) == []
    assert [c.message for c in allocating.allocated(known)] == [pinned.message]


NO_IMAGE = a_pod(1, phase="Pending", ready=False, started=False, trouble="ErrImagePull", message="no such tag")


def warned(*having: pods.Pod, then: tuple[pods.Pod, ...]) -> list[tuple[str, str]]:
    """The warnings when a job's pods are these, after they were those."""
    first = deciding.decide(running(having=[a_pod(0), *having], job=a_job(nodes=2, known=known_of(a_round()))), NOW)
    read = running(having=[a_pod(0), *then], job=a_job(nodes=2, known=first.status))
    return [(e.reason, e.message) for e in deciding.decide(read, NOW + 60).events if e.warning]


def test_what_keeps_a_pod_from_starting_is_an_event_once_each_time_that_it_is_another() -> None:
    full = dataclasses.replace(NO_IMAGE, trouble="Unschedulable", message="0/3 nodes are available")
    fuller = dataclasses.replace(full, message="0/4 nodes are available")
    waits = dataclasses.replace(NO_IMAGE, trouble="ImagePullBackOff", message="back-off")

    told = ("ErrImagePull", "pods ready: 1 of 2; digits-1-0: no such tag")
    assert warned(a_pod(1), then=(NO_IMAGE,)) == [told]
    assert warned(full, then=(NO_IMAGE,)) == [told]
    assert warned(NO_IMAGE, then=(NO_IMAGE,)) == []
    assert warned(full, then=(fuller,)) == [], "the scheduler counts its nodes anew at each try"
    assert warned(NO_IMAGE, then=(waits,)) == warned(waits, then=(NO_IMAGE,)) == [], "the kubelet says both in turn"
    assert warned(NO_IMAGE, then=(a_pod(1),)) == []


def test_last_words_of_one_line_are_told_once_and_long_ones_begin_with_a_whole_line() -> None:
    short = status.Failure(0, 2, "can't open file 'a.py'", NOW, details="can't open file 'a.py'\n")
    long = dataclasses.replace(short, details="\n".join(f"line {n} of the traceback" for n in range(100)))

    assert describing.whole(short) == describing.pointed(short) == describing.sentence(short)
    first = describing.whole(long).splitlines()[1]
    assert re.fullmatch(r"line \d+ of the traceback", first)
    assert describing.pointed(long).endswith("(more in status.lastFailure.details)")


def test_a_pod_that_waits_for_what_only_its_events_tell_is_named() -> None:
    record = a_round(Phase.OPEN, plan=[0, 1])
    waits = a_pod(1, phase="Pending", ready=False, started=False)

    new = deciding.decide(running(record=record, leases=[], having=[a_pod(0), waits]), NOW).status

    ready = conditions.find(new.conditions, conditions.PODS_READY)
    assert (new.state, new.reason) == ("Starting", "PodsPending")
    assert ready is not None
    assert ready.message == "pods ready: 1 of 2; what digits-1-0 waits for: kubectl describe pod digits-1-0"
