"""Names, spec, settings, times: what is read at the edges."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elasticjob_operator import __main__
from elasticjob_operator.api import names, queues, settings, spec, times
from elasticjob_operator.core import sizing
from support import operator_builders as build


def pod(**fields: object) -> dict[str, object]:
    """A template with these fields in its pod's spec."""
    return {"template": {"spec": {**build.TEMPLATE["spec"], **fields}}}


def container(**fields: object) -> dict[str, object]:
    """A template with these fields in its container."""
    return pod(containers=[{**build.TEMPLATE["spec"]["containers"][0], **fields}])


JOB_NAMES = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,48}[a-z0-9])?", fullmatch=True)


@given(JOB_NAMES, st.integers(0, 1023), st.integers(0, 99999))
def test_a_pods_name_fits_a_host_name_and_tells_its_place(job: str, slot: int, number: int) -> None:
    name = names.pod(job, slot, number)

    assert len(name) <= 63
    assert names.pod_place(job, name) == (slot, number)


@given(JOB_NAMES, JOB_NAMES, st.integers(0, 1023), st.integers(0, 1023))
def test_no_two_jobs_have_a_lease_of_one_name(one: str, other: str, slot: int, place: int) -> None:
    if one != other:
        same = names.slot_lease(one, slot) == names.slot_lease(other, place)
        assert not same or not names.pod_place(one, names.slot_lease(other, place))


@pytest.mark.parametrize("name", ["digits", "digits-1", "other-1-0", "digits-01-0", "digits-1-x", "digits-a-1-0"])
def test_other_names_are_nobodys_place(name: str) -> None:
    assert names.pod_place("digits", name) is None


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"maxNodes": None}, "spec.maxNodes must be a whole number"),
        ({"minNodes": 0}, "spec.minNodes must be a whole number from 1"),
        ({"nodes": True}, "spec.nodes must be a whole number"),
        ({"nodes": 9}, "spec.nodes must be from spec.minNodes to spec.maxNodes"),
        ({"failurePolicy": 3}, "spec.failurePolicy must be an object"),
        ({"template": {}}, "spec.template.spec.containers must have a container"),
        ({"template": {"spec": {"containers": ["x"]}}}, "spec.template.spec.containers must be a list of objects"),
        ({"template": {"metadata": {"labels": ["x"]}}}, "spec.template.metadata.labels must be an object"),
        (pod(securityContext="x"), "spec.template.spec.securityContext must be an object"),
        (pod(volumes={"a": {}}), "spec.template.spec.volumes must be a list of objects"),
        (pod(initContainers={"a": {}}), "spec.template.spec.initContainers must be a list of objects"),
        (container(env={"A": "1"}), r"spec.template.spec.containers\[0\].env must be a list of objects"),
        (container(env=[{"name": 5}]), r"spec.template.spec.containers\[0\].env must name each variable"),
        (container(volumeMounts={"a": "b"}), r"spec.template.spec.containers\[0\].volumeMounts must be a list"),
        (container(ports=5), r"spec.template.spec.containers\[0\].ports must be a list of objects"),
        (container(args=5), r"spec.template.spec.containers\[0\].args must be a list of words"),
        (pod(ephemeralContainers=5), "spec.template.spec.ephemeralContainers must be a list of objects"),
        (container(securityContext="x"), r"spec.template.spec.containers\[0\].securityContext must be an object"),
        (
            pod(initContainers=[{"name": "fetch", "securityContext": ["x"]}]),
            r"spec.template.spec.initContainers\[0\].securityContext must be an object",
        ),
    ],
)
def test_a_spec_of_an_older_api_is_refused_by_field(fields: dict[str, object], message: str) -> None:
    with pytest.raises(spec.SpecError, match=message):
        build.a_spec(**fields)


def test_what_is_left_empty_in_a_template_is_not_there() -> None:
    fields = container(env=None, volumeMounts=None, securityContext=None)

    assert build.a_spec(**fields).template == fields["template"]


def test_without_a_wish_the_most_is_wanted() -> None:
    assert sizing.wanted(build.a_spec(maxNodes=7)) == sizing.Size(7, "MaxNodes")
    assert sizing.wanted(build.a_spec(maxNodes=7, nodes=3)) == sizing.Size(3, "Nodes")
    assert sizing.wanted(build.a_spec(maxNodes=7, nodes=3, suspend=True)) == sizing.Size(0, "Suspended")


@given(st.integers(0, 4_000_000_000))
def test_a_moment_that_is_written_and_read_is_the_same(moment: int) -> None:
    assert times.parse(times.dump(moment)) == moment


@pytest.mark.parametrize("text", [None, 7, "", "soon", "2026-01-01T00:00:00"])
def test_what_is_no_moment_is_none(text: object) -> None:
    assert times.parse(text) is None


@pytest.mark.parametrize(
    "text", ["0001-01-01T00:00:00Z", "0999-12-31T23:59:59Z", "9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59-23:59"]
)
def test_a_moment_that_a_status_could_not_say_is_none(text: str) -> None:
    assert times.parse(text) is None


def test_settings_come_from_flags_before_the_environment() -> None:
    env = {"ELASTICJOB_WORKERS": "3", "ELASTICJOB_WATCH_NAMESPACES": "a, b", "ELASTICJOB_LEADER_ELECTION": "False"}

    found = settings.parse(["--workers=5"], env, namespace="system")

    assert (found.workers, found.watched, found.elect, found.namespace) == (5, ("a", "b"), False, "system")


@pytest.mark.parametrize(
    ("env", "name"),
    [
        ({"ELASTICJOB_WORKERS": "0"}, "ELASTICJOB_WORKERS"),
        ({"ELASTICJOB_WORKERS": "many"}, "ELASTICJOB_WORKERS"),
        ({"ELASTICJOB_PODS_PER_SECOND": "nan"}, "ELASTICJOB_PODS_PER_SECOND"),
        ({"ELASTICJOB_HEALTH_PORT": "70000"}, "ELASTICJOB_HEALTH_PORT"),
        ({"ELASTICJOB_LEADER_ELECTION": "maybe"}, "ELASTICJOB_LEADER_ELECTION"),
        ({"ELASTICJOB_LOG_LEVEL": "loud"}, "ELASTICJOB_LOG_LEVEL"),
        ({"ELASTICJOB_RELIST_SECONDS": "-1"}, "ELASTICJOB_RELIST_SECONDS"),
    ],
)
def test_a_bad_setting_ends_the_operator_with_one_line_that_names_it(
    env: dict[str, str], name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for key, value in env.items():
        monkeypatch.setenv(key, value)

    assert __main__.main([]) == 1

    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert name in lines[0]


async def test_no_cluster_is_one_line_too(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("KUBECONFIG", "/nowhere/kubeconfig")
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)

    assert await asyncio.to_thread(__main__.main, ["--health-port=0"]) == 1  # it has a loop of its own

    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert "no cluster to talk to" in lines[0]


def test_the_autoscalers_settings_are_read_and_checked() -> None:
    found = settings.parse(
        [
            "--queues",
            '[{"name": "red", "weight": 2, "quota": 8}]',
            "--autoscaler=dry-run",
            "--accelerators=a.b/c, d.e/f",
        ],
        {},
    )

    assert found.autoscaler == settings.Autoscaler(
        "dry-run", ("a.b/c", "d.e/f"), "topology.kubernetes.io/zone", (queues.Queue("red", 2, 8),)
    )
    for flag in (
        "--autoscaler=perhaps",
        "--queues=red",
        '--queues={"name": "red"}',
        "--queues=[7]",
        "--pending-accelerators=-1",
    ):
        with pytest.raises(settings.SettingsError):
            settings.parse([flag], {})


@pytest.mark.parametrize(
    ("listed", "said"),
    [
        ('[{"weight": 1}]', "a queue without a name"),
        ('[{"name": ["red"]}]', "a queue without a name"),
        ('[{"name": "red"}, {"name": "red"}]', "there are two queues named 'red': make them one"),
        ('[{"name": "red", "colour": 1}]', "queue 'red' has colour: there are name, weight, quota and limit"),
        (
            '[{"name": "red", "quota": -1}]',
            "queue 'red': its quota is a number of accelerators from 0 to 100000000, not -1",
        ),
        (
            '[{"name": "red", "limit": 1.5}]',
            "queue 'red': its limit is a number of accelerators from 0 to 100000000, not 1.5",
        ),
        (
            '[{"name": "red", "limit": true}]',
            "queue 'red': its limit is a number of accelerators from 0 to 100000000, not True",
        ),
        (
            '[{"name": "red", "weight": 1e308}]',
            "queue 'red': its weight must be a number from 0 to 1000000, not 1e+308",
        ),
        ('[{"name": "red", "weight": NaN}]', "queue 'red': its weight must be a number from 0 to 1000000, not nan"),
        ('[{"name": "red", "weight": "2"}]', "queue 'red': its weight must be a number from 0 to 1000000, not '2'"),
        ('[{"name": "red", "quota": 9, "limit": 8}]', "its quota of 9 accelerators is above its limit of 8: lower"),
    ],
)
def test_queues_that_contradict_themselves_end_the_operator_with_one_line_that_names_them(
    listed: str, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ELASTICJOB_QUEUES", listed)

    assert __main__.main([]) == 1

    (line,) = capsys.readouterr().err.splitlines()
    assert "ELASTICJOB_QUEUES" in line
    assert said in line
