"""What is known of an object only moves on, whichever of a reply and the watch comes first. No threads, no time."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import pytest

from elasticjob_rendezvous import kube, mirror

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def configmap(version: int) -> kube.Object:
    return {"metadata": {"name": "x", "resourceVersion": str(version)}, "data": {}}


@dataclasses.dataclass
class Api:
    """Lists the version of an object in each of *lists*, then brings *steps*, some of which act on the mirror."""

    lists: list[int | None]
    steps: list[Any]
    during_list: Callable[[], None] = lambda: None
    namespace: str = "default"
    mirror: mirror.Mirror = dataclasses.field(init=False)

    def list(self, *_: Any) -> tuple[list[kube.Object], str]:
        self.during_list()
        version = self.lists.pop(0)
        return ([configmap(version)], str(version)) if version is not None else ([], "12")

    def watch(self, _kind: Any, _selector: Any, version: str) -> Iterator[tuple[str, kube.Object]]:
        if not version:
            items, listed = self.list()
            yield kube.LISTED, {"items": items, "metadata": {"resourceVersion": listed}}
        while self.steps:
            step = self.steps.pop(0)
            if step == "gone":
                raise kube.GoneError
            if callable(step):
                step()
            else:
                yield step[0], configmap(step[1])
        self.mirror.stop()


def followed(api: Api, monkeypatch: pytest.MonkeyPatch) -> int | None:
    """The version that a mirror knows in the end."""
    monkeypatch.setattr(mirror, "FIRST_PAUSE", 0.0)
    mirror_of(api)._run()
    found = api.mirror.objects.get("x")
    return int(found.version) if found else None


def mirror_of(api: Api) -> mirror.Mirror:
    api.mirror = mirror.Mirror(api, kube.CONFIG_MAP, {}, lambda: None)  # type: ignore[arg-type]  # as far as needed
    return api.mirror


def put(api: Api, version: int) -> Callable[[], None]:
    return lambda: api.mirror.put(configmap(version))


@pytest.mark.parametrize("later", [[], [("MODIFIED", 12), ("MODIFIED", 13)]])
def test_a_reply_that_is_looked_at_late_changes_nothing(
    later: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    api = Api([9], [])
    api.steps = [("MODIFIED", 10), ("MODIFIED", 11), put(api, 10), *later]
    assert followed(api, monkeypatch) == (13 if later else 11)


def test_a_watch_that_is_behind_a_reply_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Api([9], [])
    api.steps = [put(api, 11), ("MODIFIED", 10)]
    assert followed(api, monkeypatch) == 11
    api = Api([9], [])
    api.steps = [put(api, 11), ("MODIFIED", 10), ("MODIFIED", 11), ("MODIFIED", 12)]
    assert followed(api, monkeypatch) == 12


def test_of_two_replies_the_later_version_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Api([9], [])
    api.steps = [put(api, 12), put(api, 11)]
    assert followed(api, monkeypatch) == 12


def test_a_deleted_object_is_not_brought_back_by_an_old_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Api([9], [])
    api.steps = [("DELETED", 10), put(api, 9)]
    assert followed(api, monkeypatch) is None
    api = Api([9], [])
    api.steps = [put(api, 12), ("DELETED", 10)]
    assert followed(api, monkeypatch) == 12, "deleted and made again"


def test_a_bookmark_tells_that_nothing_came_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Api([None], [])
    api.steps = [("BOOKMARK", 20), put(api, 15)]
    assert followed(api, monkeypatch) is None


def test_a_list_that_is_older_than_a_reply_does_not_undo_it(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Api([9], [])
    api.during_list = put(api, 10)
    assert followed(api, monkeypatch) == 10


def test_a_list_is_believed_where_versions_went_back(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Api([900, 400], [])
    api.steps = [put(api, 1000), "gone", ("MODIFIED", 401)]
    assert followed(api, monkeypatch) == 401


def test_a_server_in_trouble_is_asked_less_and_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []

    def refuse() -> None:
        raise kube.UnreachableError("503")

    def wait(seconds: float) -> bool:
        waits.append(seconds)
        if len(waits) == 8:
            api.mirror.stop()
        return True

    api = Api([], [], during_list=refuse)
    monkeypatch.setattr(mirror_of(api)._stopped, "wait", wait)
    api.mirror._run()
    for number, seconds in enumerate(waits):
        longest = min(mirror.FIRST_PAUSE * 2**number, mirror.LONGEST_PAUSE)
        assert longest / 2 <= seconds <= longest
