"""Throttled key refreshes: once a second per client, for a bounded number of clients."""

from __future__ import annotations

from identity.tokens import key_refresh_throttling
from identity.tokens.key_refresh_throttling import KeyRefreshThrottle


def test_each_client_is_refreshed_at_most_once_a_second(monkeypatch) -> None:
    now, forgotten = 100.0, []
    monkeypatch.setattr(key_refresh_throttling.time, "monotonic", lambda: now)
    throttle = KeyRefreshThrottle(lambda *ids: forgotten.append(ids))
    assert throttle.try_refresh({"id": "t"}, {"id": "a"})
    assert not throttle.try_refresh({"id": "t"}, {"id": "a"})
    assert throttle.try_refresh({"id": "t"}, {"id": "b"})
    now += 1.0
    assert throttle.try_refresh({"id": "t"}, {"id": "a"})
    assert forgotten == [("t", "a"), ("t", "b"), ("t", "a")]


def test_memory_is_bounded(monkeypatch) -> None:
    monkeypatch.setattr(key_refresh_throttling, "_MAXIMUM_CLIENTS", 2)
    throttle = KeyRefreshThrottle(lambda *_ids: None)
    for name in ("a", "b", "c"):
        assert throttle.try_refresh({"id": "t"}, {"id": name})
    assert not throttle.try_refresh({"id": "t"}, {"id": "c"})
    assert throttle.try_refresh({"id": "t"}, {"id": "a"})
