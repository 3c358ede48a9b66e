"""A real OpenLDAP server for tests, with users, on free ports of this machine."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

from tests import certificates
from tests.ports import free_port

BASE = "dc=example,dc=com"
READER = f"cn=reader,{BASE}"
READER_PASSWORD = "the reader's password"
PASSWORD = "the password elsewhere"
DEADLINE_SECONDS = 60

_SYSTEM = os.environ.get("PATH", "") + ":/usr/sbin:/usr/lib/openldap"

_CONFIGURATION = """\
include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/inetorgperson.schema
modulepath /usr/lib/ldap
moduleload back_mdb
pidfile {folder}/slapd.pid
TLSCACertificateFile {folder}/ca.pem
TLSCertificateFile {folder}/server.pem
TLSCertificateKeyFile {folder}/server.key
database mdb
maxsize 10485760
suffix "{base}"
rootdn "cn=admin,{base}"
directory {folder}/data
access to attrs=userPassword by anonymous auth by * none
access to * by dn.exact="{reader}" read by * none
"""

_ENTRIES = f"""\
dn: {BASE}
objectClass: dcObject
objectClass: organization
dc: example
o: Example

dn: {READER}
objectClass: applicationProcess
objectClass: simpleSecurityObject
cn: reader
userPassword: {READER_PASSWORD}

dn: uid=ada,{BASE}
objectClass: inetOrgPerson
uid: ada
cn: Ada Lovelace
givenName: Ada
sn: Lovelace
mail: ada@directory.example.com
mail: countess@directory.example.com
employeeNumber: 8d6d9b1e-5d0c-4c37-9f5c-4fb3d5e3a001
jpegPhoto:: /9j/4A==
userPassword: {PASSWORD}

dn: uid=grace,{BASE}
objectClass: inetOrgPerson
uid: grace
cn: Grace (Hopper)*
sn: Hopper
mail: grace@directory.example.com
employeeNumber: 8d6d9b1e-5d0c-4c37-9f5c-4fb3d5e3a002
userPassword: {PASSWORD}

dn: cn=printer,{BASE}
objectClass: inetOrgPerson
cn: printer
uid: printer
sn: Printer
userPassword: {PASSWORD}

dn: uid=passwordless,{BASE}
objectClass: inetOrgPerson
uid: passwordless
cn: No password
sn: None
"""


@dataclasses.dataclass(frozen=True)
class DirectoryServer:
    """A running server; `authorities` is the PEM file of the authority that issued its certificate."""

    port: int
    tls_port: int
    authorities: Path


@contextlib.asynccontextmanager
async def running_directory() -> AsyncIterator[DirectoryServer]:
    """Start a server with a folder of its own, and stop it afterwards."""
    found = shutil.which("slapd", path=_SYSTEM)
    assert found, "slapd is not installed: apt-get install slapd"
    with tempfile.TemporaryDirectory(prefix="slapd-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        _write(folder)
        # A copy: Debian's AppArmor profile confines /usr/sbin/slapd to its own folders.
        program = shutil.copy(found, folder / "slapd")
        (folder / "slapadd").symlink_to(program)
        adding = await asyncio.create_subprocess_exec(
            folder / "slapadd", "-q", "-f", folder / "slapd.conf", "-l", folder / "entries.ldif"
        )
        assert await adding.wait() == 0
        port, tls_port = free_port(), free_port()
        urls = f"ldap://127.0.0.1:{port}/ ldaps://127.0.0.1:{tls_port}/"
        # With -d it stays in the foreground.
        server = await asyncio.create_subprocess_exec(
            program, "-d", "0", "-f", folder / "slapd.conf", "-h", urls, stderr=asyncio.subprocess.DEVNULL
        )
        try:
            await _listening(server, port, tls_port)
            yield DirectoryServer(port, tls_port, folder / "ca.pem")
        finally:
            server.terminate()
            await server.wait()


def _write(folder: Path) -> None:
    authority = certificates.authority()
    server = certificates.make("directory", authority)
    files = {
        "ca.pem": authority.pem,
        "server.pem": server.pem,
        "server.key": server.key_pem,
        "entries.ldif": _ENTRIES,
    }
    for name, text in files.items():
        (folder / name).write_text(text)
    (folder / "data").mkdir()
    (folder / "slapd.conf").write_text(_CONFIGURATION.format(folder=folder, base=BASE, reader=READER))


async def _listening(server: asyncio.subprocess.Process, *ports: int) -> None:
    async with asyncio.timeout(DEADLINE_SECONDS):
        for port in ports:
            while True:
                assert server.returncode is None, "slapd ended"
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                except OSError:
                    await asyncio.sleep(0.02)
                else:
                    writer.close()
                    break
