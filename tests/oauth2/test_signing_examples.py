"""The examples of the documents about clients that sign, run as they stand there."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil

import pytest

from tests.conftest import ROOT, SUPER_KEY
from tests.relying_party import REDIRECT_URI

pytestmark = pytest.mark.skipif(
    not all(map(shutil.which, ("bash", "curl", "openssl"))), reason="the examples need bash, curl and openssl"
)


@pytest.fixture
def run(rp, service, tmp_path):
    """Runs the examples of a document, all in one shell, and returns what the last command printed."""
    environment = {
        "PATH": os.environ["PATH"],
        "BASE": service.base_url,
        "API_KEY": SUPER_KEY,
        "CLIENT_ID": rp.client_id,
        "CLIENT_SECRET": rp.secret,
        "ISSUER": rp.tenant["issuer"],
        "REDIRECT_URI": REDIRECT_URI,
    }

    async def run_document(name):
        blocks = re.findall(r"```bash\n(.*?)```", (ROOT / "docs" / "oauth" / name).read_text(), re.DOTALL)
        assert len(blocks) == 2
        process = await asyncio.create_subprocess_exec(
            *("bash", "-e", "-c", "echo\n".join(blocks)),
            cwd=tmp_path,
            env=environment,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate()
        assert process.returncode == 0, err.decode()
        return json.loads(out.decode().splitlines()[-1])

    return run_document


async def test_documented_client_registers_its_key_and_authenticates_with_it(run):
    assert await run("client-assertions.md") == {"active": False}


async def test_documented_client_signs_a_request_and_pushes_it(run):
    answer = await run("request-objects.md")
    assert answer["request_uri"].startswith("urn:ietf:params:oauth:request_uri:")
