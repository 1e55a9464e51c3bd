"""Shares of tenants, and who borrows from whom, against cases worked out by hand and what holds of all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.schedulers.registry import build
from muster.service.tenant_shares import Loan, TenantShare, gpu_limits, guaranteed_gpus, tenant_shares


def test_equal_shares_are_of_the_tenants_with_living_jobs() -> None:
    found = tenant_shares({"a": 1.0, "b": 7.0, "gone": 0.0}, ["a", "b"], {}, 8.0)
    assert found == {
        "a": TenantShare(4.0, ()),
        "b": TenantShare(4.0, (Loan("a", 3.0),)),
        "gone": TenantShare(0.0, ()),
    }


def test_what_is_in_no_share_is_borrowed_first() -> None:
    """8 GPUs: a has 4 guaranteed and holds 2, b has 3 and holds 6, so of its 3 more one is in no share."""
    found = tenant_shares({"a": 2.0, "b": 6.0}, ["a", "b"], {"a": 4.0, "b": 3.0}, 8.0)
    assert found["b"] == TenantShare(3.0, (Loan(None, 1.0), Loan("a", 2.0)))
    assert found["a"] == TenantShare(4.0, ())


def test_a_tenant_without_a_guarantee_borrows_all_that_it_holds() -> None:
    found = tenant_shares({"": 2.0, "a": 0.0}, [""], {"a": 8.0}, 8.0)
    assert found == {"": TenantShare(0.0, (Loan("a", 2.0),)), "a": TenantShare(8.0, ())}


def test_the_tenant_that_leaves_most_lends_first_and_once() -> None:
    held = {"a": 3.0, "b": 0.0, "x": 4.0, "y": 5.0}
    found = tenant_shares(held, held, {"a": 4.0, "b": 4.0, "x": 2.0, "y": 2.0}, 12.0)
    assert found["x"].loans == (Loan("b", 2.0),)
    assert found["y"].loans == (Loan("b", 2.0), Loan("a", 1.0))


def test_parts_of_a_gpu_are_lent() -> None:
    found = tenant_shares({"a": 0.7, "b": 0.3}, ["a", "b"], {}, 1.0)
    assert (found["a"].share_gpus, found["b"].share_gpus) == (0.5, 0.5)
    (loan,) = found["a"].loans
    assert loan.lender == "b"
    assert loan.gpus == pytest.approx(0.2)


def test_a_tenant_alone_has_all_and_owes_nothing() -> None:
    assert tenant_shares({"a": 8.0}, ["a"], {}, 8.0) == {"a": TenantShare(8.0, ())}


def test_without_tenants_there_are_no_shares() -> None:
    assert tenant_shares({}, [], {}, 8.0) == {}


@given(
    st.dictionaries(st.sampled_from("abcde"), st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1),
    st.integers(0, 9),
)
def test_loans_add_up(tenants: dict[str, tuple[int, int]], more: int) -> None:
    """What is held above a share is lent in whole, by no tenant more than it leaves free."""
    held = {tenant: float(here) for tenant, (here, _) in tenants.items()}
    guaranteed = {tenant: share + 0.5 for tenant, (_, share) in tenants.items()}
    found = tenant_shares(held, held, guaranteed, max(sum(held.values()), sum(guaranteed.values())) + more)
    for tenant, share in found.items():
        borrowed = sum(loan.gpus for loan in share.loans)
        assert borrowed == pytest.approx(max(held[tenant] - share.share_gpus, 0.0))
        lent = sum(loan.gpus for one in found.values() for loan in one.loans if loan.lender == tenant)
        assert lent <= max(share.share_gpus - held[tenant], 0.0) + 1e-9


def test_guarantees_are_those_of_the_scheduler() -> None:
    described = build("quota+las", {"guaranteed": "a:2,b:4.5"}).describe()
    assert guaranteed_gpus(described) == {"a": 2.0, "b": 4.5}
    assert guaranteed_gpus(build("fifo", {}).describe()) == {}
    assert guaranteed_gpus({"settings": ["of a scheduler of one's own"]}) == {}


def test_limits_are_those_of_the_scheduler() -> None:
    assert gpu_limits(build("quota+las", {"limits": "a:2"}).describe()) == {"a": 2.0}
    assert gpu_limits(build("quota+las", {"guaranteed": "a:2"}).describe()) == {}
    assert gpu_limits(build("fifo", {}).describe()) == {}
