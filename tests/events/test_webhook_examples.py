"""The walk-through of the README and the examples of docs/webhooks.md, run unchanged in a shell."""

from __future__ import annotations

import re
import shutil

import pytest

from tests import internals, shell
from tests.conftest import ROOT
from tests.events.test_example_receiver import line, running

pytestmark = pytest.mark.skipif(
    not all(map(shutil.which, ("bash", "curl", "sed", "tee"))), reason="the examples need bash, curl, sed and tee"
)


@pytest.mark.requirement("webhooks-own-9")
async def test_documented_webhook_example_works(build, tmp_path):
    """A first start with the default kickstart, the example receiver, and the commands in order."""
    readme = (ROOT / "README.md").read_text().partition("## Receive a webhook\n")[2].partition("\n## ")[0]
    (walk,) = shell.blocks_of(readme)
    start, commands = walk.split("\n", 1)
    assert start.startswith(".venv/bin/python examples/webhook/receiver.py")
    kickstart = (ROOT / "config" / "kickstart.yaml").read_text()
    async with build(kickstart=kickstart, data_dir=tmp_path / "var") as service:
        async with running(service.base_url) as (process, url):
            script = "\n".join([commands, *shell.blocks(ROOT / "docs" / "webhooks.md")])
            for default, here in [("http://localhost:9011", service.base_url), ("http://localhost:9081", url)]:
                assert default in commands
                script = script.replace(default, here)
            printed = await shell.run(script, tmp_path)
            lines = [await line(process) for _ in range(4)]
        await internals.database(service).drop()
    kinds = sorted(found.split()[0] for found in lines)
    assert kinds == ["user.create", "user.create", "user.create.complete", "user.delete"]
    assert [found for found in lines if "seen before" in found] == [lines[-1]]
    assert re.search(r'\{"deliveries":1\}', printed)
    assert re.search(r'\{"secret":"whsec_[\w+/=]+"\}', printed)
