"""Files of the distribution outside of the package: of the source tree, or of the installed package."""

from __future__ import annotations

from pathlib import Path
from typing import Final

_PACKAGE: Final = Path(__file__).resolve().parent
INSTALLED_FOLDER: Final = "shipped"
"""The folder inside the package into which setup.py copies them."""

DEPLOY_FILES: Final = {
    "docs/deploy/identity@.service": "/etc/systemd/system/identity@.service",
    "docs/deploy/nginx.conf": "/etc/nginx/conf.d/identity.conf",
    "docs/deploy/nginx-http.conf": "/etc/nginx/identity-http.conf",
    "docs/deploy/nginx-server.conf": "/etc/nginx/identity-server.conf",
    "deploy/prometheus/alerts.yml": "rule_files of prometheus.yml",
    "deploy/grafana/identity.json": "Grafana: Dashboards, New, Import",
}
"""The files for operators, by their path in the source tree, and the place where each belongs."""


def folder(name: str) -> Path:
    """Return the path of a folder of the distribution, `schemas` or `config`."""
    installed = _PACKAGE / INSTALLED_FOLDER / name
    return installed if installed.is_dir() else _PACKAGE.parent / name


def deploy_file(source: str) -> Path:
    """Return the path of one of DEPLOY_FILES."""
    installed = _PACKAGE / INSTALLED_FOLDER / "deploy" / Path(source).name
    return installed if installed.is_file() else _PACKAGE.parent / source
