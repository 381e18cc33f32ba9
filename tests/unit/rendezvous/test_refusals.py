"""Whatever stands in the job's objects: it is read or it is refused, counted and told; nothing else comes of it."""

from __future__ import annotations

import json
import types
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch.distributed.elastic.metrics import api as metrics

from elasticjob_rendezvous import board, events, mirror, seat, session, settings
from elasticjob_rendezvous.round import changing, lease, record
from elasticjob_rendezvous.round.agent import Sighting
from elasticjob_rendezvous.round.record import Member, Phase

if TYPE_CHECKING:
    from collections.abc import Iterator

KEYS = [lease.JOB, lease.ARRIVED, lease.STORE, lease.SEEN, lease.FINISHED, lease.CHECKPOINTED, lease.PROGRESS]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
SEALED = changing.sealed(changing.started("job", {0, 1}), [Member(0, "0000000a"), Member(1, "0000000b")], "10.0.0.1:1")
FIELDS = json.loads(record.dump(SEALED))


class Counting(metrics.MetricHandler):
    """What was counted, by name."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def emit(self, metric_data: metrics.MetricData) -> None:
        self.names.append(metric_data.name)


@pytest.fixture
def counted() -> Iterator[list[str]]:
    handler = Counting()
    metrics.configure(handler, events.GROUP)
    yield handler.names
    metrics.configure(metrics.NullMetricHandler(), events.GROUP)


def board_of() -> board.Board:
    return board.Board(types.SimpleNamespace(), job_name="a", job="job", nonce="0000000a", changed=lambda: None)


def body(text: str) -> dict[str, Any]:
    return {"metadata": {"name": "a-rendezvous", "resourceVersion": "1"}, "data": {record.KEY: text}}


# The record


@given(st.sampled_from(sorted(FIELDS)), JSON)
def test_any_field_of_any_shape_is_a_record_or_a_problem(field: str, value: Any) -> None:
    view = board_of()._believed(body(json.dumps({**FIELDS, field: value})))
    assert (view.record is None) is bool(view.problem)


@given(JSON.map(json.dumps) | st.binary(max_size=200).map(lambda data: data.decode("latin-1")) | st.text())
def test_any_text_is_a_problem_and_nothing_else(text: str) -> None:
    view = board_of()._believed(body(text))
    assert view.record is None
    assert view.problem


@pytest.mark.parametrize("data", [None, {}, {"other": "x"}])
def test_a_configmap_without_the_key_is_no_empty_record(data: Any) -> None:
    view = board_of()._believed({"metadata": {"name": "a-rendezvous"}, "data": data})
    assert view.record is None
    assert view.problem


def test_what_is_refused_is_counted_and_told(counted: list[str], caplog: pytest.LogCaptureFixture) -> None:
    mine = board_of()
    mine._believed(body(record.dump(changing.opened(SEALED, record.Reason.RESIZED))))
    assert mine.highest == 2
    for text in ("}{", " " * (record.MAX_BYTES + 1), record.dump(SEALED)):
        assert mine._believed(body(text)).record is None
    assert counted == ["refused.record"] * 3
    assert caplog.text.count("refused: ConfigMap a-rendezvous") == 3
    assert mine.highest == 2, "what is refused moves nothing"


def test_a_record_that_is_forged_to_be_sealed_twice_over_is_refused() -> None:
    forged = {**FIELDS, "phase": Phase.SEALED.value, "members": ["0:0000000a", "0:0000000b"]}
    assert board_of()._believed(body(json.dumps(forged))).record is None


# The Leases


@given(
    st.text(max_size=50),
    st.dictionaries(st.sampled_from(KEYS), st.text(max_size=60) | JSON.map(json.dumps), max_size=7),
    st.dictionaries(st.sampled_from([lease.JOB_LABEL, lease.SLOT_LABEL]), st.text(max_size=10), max_size=2),
    st.none() | st.integers(),
)
def test_any_lease_is_read_or_is_none_of_ours(
    holder: str, annotations: dict[str, str], labels: dict[str, str], seconds: int | None
) -> None:
    metadata = {"name": "a-0", "resourceVersion": "1", "labels": labels, "annotations": annotations}
    spec = {"holderIdentity": holder, "leaseDurationSeconds": seconds}
    reader = types.SimpleNamespace(limit=160.0, _parsed={}, _wonder=lambda seen, why: None)
    found = session.Session._read(reader, mirror.Seen({"metadata": metadata, "spec": spec}, 0.0))  # type: ignore[arg-type]
    if found is not None:
        assert 0 < found.limit <= settings.MAX_LIMIT
        assert lease.parse(0, lease.holder(found.lease), lease.annotations(found.lease)).refused == ()


def test_a_lease_of_another_run_is_free() -> None:
    held = lease.SlotLease(0, "pod", "0000000a", arrived=3, job="old")
    sighting = Sighting(held, still=0.0, limit=160.0)
    assert seat.of_run(sighting, "new").lease.free
    assert seat.of_run(sighting, "old").lease == held


def test_part_of_a_lease_that_is_refused_is_counted_once_a_version(
    counted: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    mine = object.__new__(session.Session)
    mine._odd, mine._parsed = {}, {}
    mine.timers = types.SimpleNamespace(fence=120.0, stop=40.0)  # type: ignore[assignment]
    for version in ("1", "1", "2"):
        labels = {lease.JOB_LABEL: "a", lease.SLOT_LABEL: "0"}
        metadata = {"name": "a-0", "resourceVersion": version, "labels": labels, "annotations": {lease.ARRIVED: "-1"}}
        assert mine._read(mirror.Seen({"metadata": metadata, "spec": {}}, 0.0)) is not None
    assert counted == ["refused.lease"] * 2
    assert "elasticjob.dev/arrived: not a number" in caplog.text
