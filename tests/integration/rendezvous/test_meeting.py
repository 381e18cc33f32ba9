"""The check-in and the pulse over real TCPStores, without an API server."""

from __future__ import annotations

import dataclasses
import os
import signal
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from elasticjob_rendezvous import links, meeting, pulse, stores
from elasticjob_rendezvous.round import changing
from elasticjob_rendezvous.round.record import Member
from support import ports, rendezvous_ending, rendezvous_forks
from support.rendezvous_jobs import PATIENCE, ROOT, until

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Iterator


@dataclasses.dataclass
class Group:
    """The places of a round on this machine, and each member's own store."""

    places: list[meeting.Place]
    servers: list[stores.TCPStore]

    def attempt(self, rank: int) -> meeting.Attempt:
        new = meeting.Attempt(self.places[rank], None if rank else self.servers[0])
        new.start()
        return new


@pytest.fixture
def group() -> Group:
    return made(3)


def made(size: int) -> Group:
    servers = [stores.bind("127.0.0.1") for _ in range(size)]
    where = [stores.joined("127.0.0.1", server.port) for server in servers]
    members = [Member(slot, f"{slot:08x}") for slot in range(size)]
    record = changing.sealed(changing.started("job", range(size)), members, where[0])
    return Group([meeting.Place(record, rank, where[rank]) for rank in range(size)], servers)


@pytest.fixture
def pulses() -> Iterator[list[pulse.Pulse]]:
    started: list[pulse.Pulse] = []
    yield started
    stores.join_threads([each.stop() for each in started])


def beating(place: meeting.Place, *, number: int = 1) -> pulse.Pulse:
    return pulse.Pulse(place, interval=0.1, silence=0.5, number=lambda: number, changed=lambda: None).start()


def test_nobody_goes_before_all_are_there(group: Group) -> None:
    early = [group.attempt(0), group.attempt(1)]
    until(lambda: early[0].missing == {2}, "rank 0 has looked who is missing")
    assert not any(each.done.is_set() for each in early)
    everybody = [*early, group.attempt(2)]
    assert all(each.done.wait(PATIENCE) for each in everybody)
    assert {each.place.port for each in everybody} == {group.servers[0].port}


def test_rank_0_knows_who_does_not_come(group: Group) -> None:
    first = group.attempt(0)
    group.attempt(2)
    until(lambda: first.missing == {1}, "rank 1 is missing")
    first.stop()


def test_a_check_in_goes_on_with_each_who_comes_for_everybody_who_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meeting, "PATIENCE", 0.01)
    four = made(4)
    waiting = [four.attempt(0), four.attempt(1)]
    until(lambda: waiting[0].missing == {2, 3} and waiting[1]._claimed == 2, "both have looked")
    before = [each.moved for each in waiting]
    waiting.append(four.attempt(2))
    until(lambda: all(each.moved > was for each, was in zip(waiting, before, strict=False)), "both have seen it")
    for each in waiting:
        each.stop()


def test_another_processes_rank_cannot_be_claimed(group: Group) -> None:
    other = dataclasses.replace(
        group.places[1],
        record=dataclasses.replace(group.places[1].record, members=(Member(0, "00000000"), Member(1, "ffffffff"))),
    )
    meeting.Meeting(group.places[1], group.servers[0]).claim()
    meeting.Meeting(group.places[1], group.servers[0]).claim()
    with pytest.raises(meeting.TakenError, match="rank 1 of round 1"):
        meeting.Meeting(other, group.servers[0]).claim()


def test_rank_0_that_is_gone_is_told_at_once(group: Group) -> None:
    gone = dataclasses.replace(group.places[1].record, store=stores.joined("127.0.0.1", ports.free()))
    attempt = meeting.Attempt(dataclasses.replace(group.places[1], record=gone), None)
    attempt.start()
    assert attempt.done.wait(PATIENCE)
    assert attempt.problem == "rank 0's process is gone"


def test_members_hear_each_other_and_of_later_rounds(group: Group, pulses: list[pulse.Pulse]) -> None:
    for place in group.places:
        meeting.Meeting(place, group.servers[0]).claim()
    pulses += [beating(place, number=7 if place.rank == 2 else 1) for place in group.places]
    until(lambda: pulses[0].heard == 7, "rank 0 hears of round 7")
    until(lambda: all(beats(each) >= 10 for each in pulses), "each has heard more beats than silence lasts")
    assert not any(each.silent for each in pulses)


def beats(of: pulse.Pulse) -> int:
    """How many beats it has heard of the member that it has heard least of."""
    return min((int(beat.split()[0]) for beat in of._last.values()), default=0)


def test_member_without_a_beat_is_silent(group: Group, pulses: list[pulse.Pulse]) -> None:
    for place in group.places:
        meeting.Meeting(place, group.servers[0]).claim()
    pulses += [beating(group.places[0]), beating(group.places[1])]
    until(lambda: pulses[0].silent == {2}, "rank 2 is silent")
    assert not pulses[1].silent, "rank 1 judges rank 0 only"


def test_member_whose_store_closes_is_gone_before_it_is_silent(group: Group, pulses: list[pulse.Pulse]) -> None:
    for place in group.places:
        meeting.Meeting(place, group.servers[0]).claim()
    patient = pulse.Pulse(group.places[0], interval=5, silence=3600, number=lambda: 1, changed=lambda: None).start()
    pulses += [patient, beating(group.places[1])]
    until(lambda: patient._last, "listening")
    del group.servers[2]
    until(lambda: patient.silent == {2}, "rank 2 is gone")


def test_a_store_that_was_let_go_for_a_later_round_is_not_tried_for_ever(pulses: list[pulse.Pulse]) -> None:
    group = made(2)
    for place in group.places:
        meeting.Meeting(place, group.servers[0]).claim()
    pulses.append(beating(group.places[1], number=2))
    until(lambda: pulses[0]._last, "listening")
    del group.servers[0]
    until(lambda: not pulses[0]._thread.is_alive(), "it has ended")
    assert pulses[0].silent == {0}


SERVER = """
import sys, time
from elasticjob_rendezvous import stores
server = stores.bind("127.0.0.1")
print(server.port, flush=True)
time.sleep(60)
"""


def test_rank_0_that_hangs_is_silent_although_its_store_never_answers_and_holds_up_nobodys_end(
    pulses: list[pulse.Pulse], monkeypatch: pytest.MonkeyPatch
) -> None:
    group = made(2)
    env = {**os.environ, "PYTHONPATH": str(ROOT / "rendezvous")}
    with subprocess.Popen([sys.executable, "-c", SERVER], env=env, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        record = dataclasses.replace(group.places[0].record, store=stores.joined("127.0.0.1", port))
        places = [dataclasses.replace(place, record=record) for place in group.places]
        server = stores.join("127.0.0.1", port, timeout=PATIENCE)
        for place in places:
            meeting.Meeting(place, server).claim()
        member, root = beating(places[1]), beating(places[0])
        pulses += [member, root]
        until(lambda: beats(member), "rank 0 is heard")
        assert not member.silent
        os.kill(process.pid, signal.SIGSTOP)

        def silent() -> bool:
            member.tick(0.1)
            time.sleep(0.1)
            return member.silent == {0}

        until(silent, "rank 0 is silent")
        monkeypatch.setattr(stores, "JOIN_SECONDS", 0.5)
        waiting = member.stop()
        stores.join_threads([waiting])
        assert waiting.is_alive(), "an operation on a stopped server never returns"
        monkeypatch.undo()
        stores.join_threads([waiting], {port})
        assert not waiting.is_alive()
        process.kill()


@pytest.mark.parametrize(("joined", "code"), [(False, -signal.SIGABRT), (True, 0)])
def test_an_interpreter_that_shuts_down_beside_a_thread_on_a_store_aborts_unless_it_was_joined(
    joined: bool,  # noqa: FBT001 - a parameter of the test
    code: int,
    tmp_path: pathlib.Path,
) -> None:
    process = rendezvous_forks.Fork(rendezvous_ending.end, joined, env=dict(os.environ), log=tmp_path / "log")
    assert process.wait(PATIENCE) == code


def test_tries_to_reach_a_machine_without_power_add_up_however_long_each_takes() -> None:
    member = pulse.Pulse(made(2).places[1], interval=0.1, silence=0.5, number=lambda: 1, changed=lambda: None)
    for _ in range(9):  # of 0.1 s: more than 1.6 times the silence
        with pytest.raises(RuntimeError), member._asking():
            raise RuntimeError("timed out")
        member.tick(0.1)
    assert member.silent == {0}


def test_one_answer_ends_the_silence() -> None:
    member = pulse.Pulse(made(2).places[1], interval=0.1, silence=0.5, number=lambda: 1, changed=lambda: None)
    for turn in range(12):
        if turn == 6:
            with member._asking():
                pass
        else:
            with pytest.raises(RuntimeError), member._asking():
                raise RuntimeError("timed out")
        member.tick(0.1)
    assert not member.silent


def test_a_link_that_breaks_while_its_peer_lives_is_made_again() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        connections = links.Links({3: server.getsockname()})
        connections.gone(0.3)
        server.accept()[0].close()
        assert connections.gone(0.5) == set()
        server.accept()[0].close()
        server.close()
        found = [connections.gone(0.3) for _ in range(5)]
        assert {3} in found
    connections.close()


def test_who_refuses_is_gone_and_who_is_there_is_not() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        connections = links.Links({1: ("127.0.0.1", ports.free()), 3: server.getsockname()})
        found = [connections.gone(0.1) for _ in range(5)]
        connections.close()
    assert set.union(*found) == {1}


def test_probing_tells_a_dead_process_from_a_dead_network(monkeypatch: pytest.MonkeyPatch) -> None:
    assert links.probe(("127.0.0.1", ports.free()))[0] is links.Peer.GONE

    def unreachable(*_: object, **__: object) -> socket.socket:
        raise TimeoutError

    monkeypatch.setattr(socket, "create_connection", unreachable)
    assert links.probe(("127.0.0.1", 1))[0] is links.Peer.UNKNOWN


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_store_addresses_read_back(address: str) -> None:
    assert stores.split(stores.joined(address, 29400)) == (address, 29400)
    assert stores.ADDRESS.fullmatch(stores.joined(address, 29400))


def test_a_store_over_ipv6() -> None:
    if not socket.has_ipv6:
        pytest.skip("no IPv6 here")
    server = stores.bind("::1")
    stores.join("::1", server.port, timeout=PATIENCE).set("key", "value")
    assert server.get("key") == b"value"
