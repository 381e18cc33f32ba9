from __future__ import annotations

from typing import Any

import pytest

from elasticjob_rendezvous import settings


def parse(**changes: Any) -> settings.Settings:
    given: dict[str, Any] = {
        "endpoint": "ml/digits",
        "run_id": "0f2e",
        "low": 1,
        "high": 4,
        "local_addr": None,
        "conf": {"timeout": 900},
        "env": {},
    }
    return settings.parse(**{**given, **changes})


def test_a_pod_of_the_operator_needs_no_configuration() -> None:
    env = {"ELASTICJOB_SLOT": "2", "ELASTICJOB_POD_UID": "5b3c", "ELASTICJOB_POD_IP": "fd00::5"}
    found = parse(env=env)
    assert (found.namespace, found.name, found.run_id) == ("ml", "digits", "0f2e")
    assert (found.planned, found.slot, found.pod_uid, found.address) == (True, 2, "5b3c", "fd00::5")
    assert found.timers.join_timeout == 0, "the operator has deadlines of its own"


def test_standalone_waits_as_long_as_torch_does() -> None:
    assert parse().timers.join_timeout == 600
    assert parse(conf={"join_timeout": "5"}).timers.join_timeout == 5


@pytest.mark.parametrize(
    ("conf", "env", "slot"),
    [
        ({}, {}, None),
        ({"node": "3"}, {"JOB_COMPLETION_INDEX": "1"}, 3),
        ({}, {"JOB_COMPLETION_INDEX": "1"}, 1),
        ({}, {"JOB_COMPLETION_INDEX": "9"}, None),
    ],
)
def test_where_a_slot_comes_from(conf: dict[str, str], env: dict[str, str], slot: int | None) -> None:
    assert parse(conf=conf, env=env).slot == slot


@pytest.mark.parametrize(
    ("conf", "local_addr", "address"),
    [
        ({}, None, ""),
        ({}, "127.0.0.2", "127.0.0.2"),
        ({"address": "[fd00::1]"}, "127.0.0.2", "fd00::1"),
        ({"address": "node-1.example"}, None, "node-1.example"),
    ],
)
def test_which_address_is_advertised(conf: dict[str, str], local_addr: str | None, address: str) -> None:
    assert parse(conf=conf, local_addr=local_addr).address == address


def test_without_an_endpoint_the_id_is_the_name() -> None:
    found = parse(endpoint="", run_id="digits-7")
    assert (found.namespace, found.name, found.run_id) == ("", "digits-7", "digits-7")


def test_torchs_own_timeouts_are_understood() -> None:
    conf = {"join_timeout": "5", "last_call_timeout": "6", "close_timeout": "7", "heartbeat_timeout": "8"}
    found = parse(conf=conf).timers
    read = (found.join_timeout, found.last_call_timeout, found.close_timeout, found.heartbeat_timeout)
    assert read == (5, 6, 7, 8)


@pytest.mark.parametrize("endpoint", ["digits", "ml/digits"])
def test_endpoint_is_a_name_with_or_without_its_namespace(endpoint: str) -> None:
    assert parse(endpoint=endpoint).name == "digits"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"endpoint": "", "run_id": "A b"}, r"rdzv-endpoint 'A b': wanted is \[NAMESPACE/\]NAME.*without an endpoint"),
        ({"conf": {"close_timeout": "0"}}, "above 0"),
        ({"conf": {"heartbeat_timeout": "0"}}, "above 0"),
        ({"endpoint": "host:29400/x"}, "wanted is"),
        ({"endpoint": "A/b/c"}, "wanted is"),
        ({"run_id": "none"}, "--rdzv-id is not set"),
        ({"low": 3, "high": 2}, "1 ≤ min ≤ max"),
        ({"high": 5000}, "≤ 1024"),
        ({"conf": {"nodes": "1"}}, "unknown nodes; known: address, beat_interval"),
        ({"conf": {"node": "-1"}}, "wanted is a slot"),
        ({"env": {"ELASTICJOB_SLOT": "first"}}, "ELASTICJOB_SLOT='first'"),
        ({"conf": {"address": "no where"}}, "wanted is an IP address"),
        ({"conf": {"silence": "soon"}}, "silence='soon': wanted is a number of seconds"),
        ({"conf": {"fence": "nan"}}, "fence"),
        ({"conf": {"join_timeout": "-1"}}, "from 0"),
        ({"conf": {"fence": "3600"}}, r"fence \+ stop"),
        ({"conf": {"beat_interval": "9"}}, "0 < beat_interval < silence"),
    ],
)
def test_what_is_wrong_is_told_with_what_is_wanted(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse(**changes)
