"""The tests' reader of audit logs, which are read while they are written."""

import pathlib

from support import audit, e2e_audit

WORKER = '{"user": {"username": "system:serviceaccount:default:digits-worker"}, "verb": "get", "requestURI": "/x"'


def test_a_last_line_that_is_half_written_is_left_for_later(tmp_path: pathlib.Path) -> None:
    log = tmp_path / "audit.log"
    log.write_text('{"verb": "get"}\n{"verb": "li')

    assert list(audit.entries(log)) == [{"verb": "get"}]


def test_entries_without_a_user_or_an_answer_are_nobodys(tmp_path: pathlib.Path) -> None:
    log = tmp_path / "audit.log"
    log.write_text('{"user": {}, "responseStatus": {"code": 401}}\n{"verb": "get"}\n' + WORKER + "}\n")

    assert e2e_audit.users(log) == {"system:serviceaccount:default:digits-worker"}
    assert e2e_audit.refused(log, []) == []


def test_what_the_product_had_no_right_to_is_found_and_what_admission_refused_is_not(tmp_path: pathlib.Path) -> None:
    log = tmp_path / "audit.log"
    answer = ', "responseStatus": {"code": 403}'
    without_right = answer + ', "annotations": {"authorization.k8s.io/decision": "forbid"}'
    by_admission = answer + ', "annotations": {"authorization.k8s.io/decision": "allow"}'
    log.write_text("".join(f"{WORKER}{rest}}}\n" for rest in (without_right, by_admission)))

    assert e2e_audit.refused(log, []) == ["system:serviceaccount:default:digits-worker get /x"]
