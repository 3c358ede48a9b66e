"""The command line of a source tree: the same as the installed program `identity`."""

from __future__ import annotations

import functools
import sys

try:
    from identity.cli.main import main as _main
except ModuleNotFoundError as error:
    if (error.name or "").startswith("identity"):
        raise
    sys.exit(
        f"run.py: the package {error.name} is not installed for {sys.executable} (Python 3.11 or newer is needed).\n"
        "Run `make run`, or: python3 -m venv .venv && .venv/bin/pip install -e '.[embedded]' && .venv/bin/python run.py"
    )

main = functools.partial(_main, program="run.py")

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
