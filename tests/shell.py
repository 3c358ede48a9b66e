"""Runs the shell examples of the documentation."""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path


def blocks(document: Path) -> list[str]:
    """The examples for a shell in a document."""
    return blocks_of(document.read_text())


def blocks_of(text: str) -> list[str]:
    """The same of a part of one."""
    return re.findall(r"^```(?:bash|sh)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


async def run(script: str, folder: Path) -> str:
    """What a script printed, as bash runs it in a folder; a command that fails ends it, and the test."""
    process = await asyncio.create_subprocess_exec(
        *("bash", "-e", "-c", script),
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(folder)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    return out.decode()
