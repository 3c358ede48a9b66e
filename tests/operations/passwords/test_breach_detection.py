"""Breach checks: every result in every mode, and unavailable sources."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from identity.config.sections import License
from identity.domain.login.breach_detection import digest
from identity.operations.passwords import breach_detection
from identity.services import Services
from tests import internals
from tests.builders import make_tenant, make_user

USER = make_user(email="ada+shop@example.com")


class Known:
    """A source with these texts; None means that it is unavailable."""

    def __init__(self, texts: set[str] | None) -> None:
        self.hashes = None if texts is None else {digest(text) for text in texts}
        self.asked = 0

    async def contains(self, wanted: str) -> bool | None:
        self.asked += 1
        return None if self.hashes is None else wanted in self.hashes

    async def close(self) -> None:
        """Nothing to close."""


Make = Callable[..., Services]


@pytest.fixture
def knowing(service) -> Make:
    def make(texts: set[str] | None, *, pairs: bool = True, license_: License | None = None) -> Services:
        config = internals.config(service)
        settings = dataclasses.replace(config.breaches, pairs=pairs)
        config = dataclasses.replace(config, breaches=settings, license=license_ or config.license)
        runtime = dataclasses.replace(service.services.runtime, breached_passwords=Known(texts))
        return dataclasses.replace(service.services, config=config, runtime=runtime)

    return make


def tenant(mode: str = "High", **members: Any) -> dict[str, Any]:
    return make_tenant(passwordValidationRules={"breachDetection": {"enabled": True, "matchMode": mode, **members}})


FINDS = {
    "ExactMatch": ("ada+shop@example.com:a rare one", "a rare one", {"High", "Medium", "Low"}),
    "SubAddressMatch": ("ada@example.com:a rare one", "a rare one", {"High", "Medium"}),
    "CommonPassword": ("nothing at all", "LetMeIn", {"High", "Medium", "Low"}),
    "PasswordOnly": ("a rare one", "a rare one", {"High"}),
}


@pytest.mark.requirement("core-2-7", "users-7-27")
@pytest.mark.parametrize("mode", ["High", "Medium", "Low"])
@pytest.mark.parametrize("find", sorted(FINDS))
async def test_each_match_has_its_modes_and_code(knowing: Make, find: str, mode: str) -> None:
    text, password, modes = FINDS[find]
    services = knowing({text})
    expected = find if mode in modes else "None"
    assert await breach_detection.check_password(services, tenant(mode), USER, password) == expected
    errors = await breach_detection.problems(services, tenant(mode), USER, password, "password")
    assert [error.code for error in errors] == ([f"[breached{find}]password"] if mode in modes else [])


@pytest.mark.requirement("users-7-27")
async def test_worst_match_is_reported(knowing: Make) -> None:
    texts = {"ada+shop@example.com:letmein", "ada@example.com:letmein", "letmein"}
    for lost, expected in ((set(), "ExactMatch"), ({"ada+shop@example.com:letmein"}, "SubAddressMatch")):
        assert await breach_detection.check_password(knowing(texts - lost), tenant(), USER, "letmein") == expected
    assert await breach_detection.check_password(knowing({"letmein"}), tenant(), USER, "letmein") == "CommonPassword"


async def test_pairs_are_checked_if_the_source_has_them(knowing: Make) -> None:
    services = knowing({"ada+shop@example.com:a rare one"}, pairs=False)
    assert await breach_detection.check_password(services, tenant(), USER, "a rare one") == "None"
    assert services.runtime.breached_passwords.asked == 1


@pytest.mark.requirement("users-7-29")
async def test_unavailable_source_blocks_no_password(knowing: Make) -> None:
    services = knowing(None)
    assert await breach_detection.check_password(services, tenant(), USER, "a rare one") is None
    assert await breach_detection.problems(services, tenant(), USER, "a rare one", "password") == []
    # What is known without it is known all the same.
    assert await breach_detection.check_password(services, tenant(), USER, "letmein") == "CommonPassword"
    assert await breach_detection.check_password(services, tenant("Low"), USER, "a rare one") is None


async def test_disabled_detection_makes_no_lookups(knowing: Make) -> None:
    services = knowing({"letmein"})
    assert await breach_detection.check_password(services, tenant(enabled=False), USER, "letmein") is None
    unlicensed = knowing({"letmein"}, license_=License({breach_detection.FEATURE: False}))
    assert await breach_detection.check_password(unlicensed, tenant(), USER, "letmein") is None
    assert services.runtime.breached_passwords.asked == unlicensed.runtime.breached_passwords.asked == 0
