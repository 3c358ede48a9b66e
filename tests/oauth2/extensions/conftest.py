"""A service with the OAuth extensions that the configuration leaves off by default."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from identity import app
from tests import certificates
from tests.conftest import Build, ShiftedClock
from tests.oauth2.extensions.software import ISSUER, SIGNER


@pytest.fixture(scope="package")
async def service(
    build: Build, session_clock: ShiftedClock, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[app.Service]:
    """The service of these tests, in place of the shared one."""
    folder = tmp_path_factory.mktemp("extensions")
    settings = {
        "token_exchange__enabled": "true",
        "mutual_tls__enabled": "true",
        "mutual_tls__authorities_file": str(folder / "clients.pem"),
        "mutual_tls__base_url": "https://mtls.example.com",
        "client_registration__enabled": "true",
        "client_registration__attempts_per_address": "70",
        "client_registration__maximum_per_tenant": "3",
        "client_registration__trusted_issuers_file": str(folder / "issuers.json"),
    }
    Path(settings["client_registration__trusted_issuers_file"]).write_text(json.dumps({ISSUER: {"keys": [SIGNER.jwk]}}))
    Path(settings["mutual_tls__authorities_file"]).write_text(certificates.authority().pem)
    async with build(clock=session_clock, **settings) as running:
        yield running
