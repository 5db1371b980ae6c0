"""The chain of the audit trail: whatever is done to its records is found, and named."""

import datetime as dt
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from muster_server.domain.audit_chain import NOTHING, AuditRecord, Seal, seals, verify

AT = dt.datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=dt.UTC)
TEXTS = st.text(max_size=8)
CHAINS = st.lists(
    st.builds(
        AuditRecord,
        id=st.integers(1, 2**60),
        at=st.integers(0, 10**9).map(lambda s: AT + dt.timedelta(seconds=s)),
        actor=TEXTS,
        action=TEXTS,
        subject=TEXTS,
        remote_addr=TEXTS,
        detail=st.dictionaries(
            TEXTS, st.none() | st.integers() | st.floats(allow_nan=False) | TEXTS
        ),
    ),
    min_size=2,
    max_size=8,
)


def sealed(records):
    chain = list(zip(seals(NOTHING, records), records, strict=True))
    return chain, chain[-1][0]


@given(CHAINS, st.data())
def test_a_chain_fits_until_something_is_done_to_it(records, data):
    chain, head = sealed(records)
    assert verify(chain, head=head).problem == ""
    assert verify(chain, head=head).last == head
    n = data.draw(st.integers(0, len(chain) - 1), label="which one")
    seal, record = chain[n]
    changed = data.draw(
        st.sampled_from(
            [
                replace(record, actor=f"{record.actor}x"),
                replace(record, at=record.at + dt.timedelta(microseconds=1)),
                replace(record, detail={**record.detail, "more": 1}),
                replace(record, id=record.id + 1),
            ]
        )
    )
    found = verify([*chain[:n], (seal, changed), *chain[n + 1 :]], head=head)
    assert found.problem.startswith(f"Record {n + 1} ({changed})")
    assert found.last.no == n
    removed = verify(chain[:n] + chain[n + 1 :], head=head)
    assert removed.problem == f"Record {n + 1} is missing."


@given(CHAINS)
def test_a_chain_that_was_made_anew_does_not_fit_what_was_noted(records):
    _, head = sealed(records)
    noted = next(seals(NOTHING, records))
    forged, new_head = sealed([replace(records[0], actor="nobody at all"), *records[1:]])
    assert verify(forged, head=new_head).problem == "", "the signature of the head tells"
    assert verify(forged, head=new_head, noted=noted).problem.startswith("Record 1 (")
    assert verify(forged, head=head).problem.startswith(f"Record {len(records)} (")


def test_what_was_cut_off_is_missing():
    records = [
        AuditRecord(id=n, at=AT, actor="a", action="b", subject="", remote_addr="", detail={})
        for n in (1, 2, 3)
    ]
    chain, head = sealed(records)
    assert verify(chain[:1], head=head).problem == "Records 2 to 3 are missing."
    assert verify([], head=head).problem == "Records 1 to 3 are missing."
    assert verify([], head=NOTHING).problem == ""
    noted = Seal(no=9, digest="f" * 64)
    assert verify(chain, head=head, noted=noted).problem == "Records 4 to 9 are missing."
    assert str(head) == f"3:{head.digest}"
