"""Encryption of secrets at rest with AES-256-GCM under a master key, and keyed fingerprints for lookups.

The master key file has one key per line, `<id>:<base64 of 32 bytes>`, the current one first. A sealed text contains the
id of its key, so that old and new keys work together during re-encryption. The fingerprint key is sealed in the
database and does not change when the master key is rotated.
"""

from __future__ import annotations

import base64
import os
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from identity.errors import StartupError
from identity.ids import keyed_fingerprint
from identity.store import data_dir

_MARK = "sealed:1:"

NO_MASTER_KEY = (
    "The master key file {file} does not exist, but the database holds secrets that are encrypted with it. Put the file"
    " back from the backup or from another machine of this instance (secrets.master_key_file). If it is lost for good,"
    " the stored secrets cannot be read: restore both from a backup, or drop the database and start anew."
)


class Vault:
    """Seals and unseals texts. `context` is authenticated, so that a sealed text cannot be moved to another member."""

    def __init__(self, keys: Mapping[str, bytes], fingerprint_key: bytes = b"", *, file: Path | None = None) -> None:
        """`file` is read again when a text is sealed with an unknown key, which may have been added since."""
        self._ciphers = {key_id: AESGCM(key) for key_id, key in keys.items()}
        self._current = next(iter(keys))
        self._fingerprint_key = fingerprint_key
        self._file = file

    @classmethod
    def of_file(cls, file: Path) -> Vault:
        """The vault of a master key file, which is created if it does not exist. Raises StartupError."""
        return cls(ensure_master_keys(file), file=file)

    def with_fingerprint_key(self, sealed_key: str) -> Vault:
        """This vault with its fingerprint key set."""
        self._fingerprint_key = base64.b64decode(self.unseal(sealed_key, "instance.fingerprintKey"))
        return self

    def new_fingerprint_key(self) -> str:
        """A new sealed fingerprint key, for a new instance."""
        return self.seal(base64.b64encode(secrets.token_bytes(32)).decode(), "instance.fingerprintKey")

    def fingerprint(self, secret: str) -> str:
        """The keyed fingerprint of a secret, for lookups."""
        return keyed_fingerprint(self._fingerprint_key, secret)

    def seal(self, plain: str, context: str) -> str:
        """Encrypt a text under the current master key."""
        nonce = os.urandom(12)
        sealed = self._ciphers[self._current].encrypt(nonce, plain.encode(), context.encode())
        return f"{_MARK}{self._current}:{base64.b64encode(nonce + sealed).decode()}"

    def unseal(self, sealed: str, context: str) -> str:
        """Decrypt a text. Raises StartupError if its master key is missing or it was tampered with."""
        key_id, _, body = sealed.removeprefix(_MARK).partition(":")
        if not sealed.startswith(_MARK) or not self._has_key(key_id):
            raise StartupError(
                f"A stored secret was sealed with the master key [{key_id or '?'}], which is not in {self._file_text}."
                " Put that key back into the file (secrets.master_key_file), below the current one, from the backup or"
                " from another machine of this instance."
            )
        raw = base64.b64decode(body)
        try:
            return self._ciphers[key_id].decrypt(raw[:12], raw[12:], context.encode()).decode()
        except InvalidTag as error:
            raise StartupError(
                f"A stored secret cannot be decrypted: the master key [{key_id}] in {self._file_text} is not the one it"
                " was sealed with, or the stored text was changed. Put the file back from the backup or from another"
                " machine of this instance (secrets.master_key_file)."
            ) from error

    @property
    def _file_text(self) -> str:
        return "the master key file" if self._file is None else f"the master key file {self._file}"

    def _has_key(self, key_id: str) -> bool:
        """Whether the master key is available, if necessary after reading the file again.

        During a rolling restart with a new key, processes not yet restarted read texts sealed with it.
        """
        if key_id not in self._ciphers and self._file is not None:
            found = read_master_keys(self._file)
            self._ciphers |= {name: AESGCM(key) for name, key in found.items() if name not in self._ciphers}
        return key_id in self._ciphers

    def is_current(self, sealed: str) -> bool:
        """Whether a text is sealed under the current master key."""
        return sealed.startswith(f"{_MARK}{self._current}:")

    def reseal(self, sealed: str, context: str) -> str:
        """Decrypt a text and encrypt it under the current master key."""
        return self.seal(self.unseal(sealed, context), context)


def is_sealed(value: object) -> bool:
    """Whether a stored value is a sealed text."""
    return isinstance(value, str) and value.startswith(_MARK)


def file_fault(file: Path, sealed_fingerprint_key: str) -> str | None:
    """Why a process of this instance could not start with a master key file; None if it could."""
    if not file.exists():
        return NO_MASTER_KEY.format(file=file)
    try:
        Vault(read_master_keys(file), file=file).with_fingerprint_key(sealed_fingerprint_key)
    except StartupError as error:
        return str(error)
    return None


def read_master_keys(file: Path) -> dict[str, bytes]:
    """The keys of a master key file, the current one first. Raises StartupError if the file is not valid."""
    try:
        lines = [line.strip() for line in file.read_text().splitlines() if line.strip()]
        keys = {
            key_id: base64.b64decode(encoded, validate=True) for key_id, _, encoded in (x.partition(":") for x in lines)
        }
    except (OSError, ValueError) as error:
        raise StartupError(f"The master key file {file} cannot be read: {error}") from error
    if not keys or any(len(key) != 32 or not key_id for key_id, key in keys.items()):
        raise StartupError(f"The master key file {file} must hold lines of the form <id>:<base64 of 32 bytes>.")
    return keys


def ensure_master_keys(file: Path) -> dict[str, bytes]:
    """As `read_master_keys`; creates the file with mode 0600 if it does not exist."""
    if not file.exists():
        _write(file, {new_key_id(): secrets.token_bytes(32)}, data_dir.create_private)
    return read_master_keys(file)


def add_master_key(file: Path) -> str:
    """Add a new current key at the beginning of the file and return its id."""
    keys = read_master_keys(file)
    key_id = new_key_id()
    _write(file, {key_id: secrets.token_bytes(32), **keys}, data_dir.write_private)
    return key_id


def new_key_id() -> str:
    """A random short id for a master key."""
    return secrets.token_hex(4)


def _write(file: Path, keys: Mapping[str, bytes], write: Callable[[Path, bytes], None]) -> None:
    lines = "".join(f"{key_id}:{base64.b64encode(key).decode()}\n" for key_id, key in keys.items())
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write(file, lines.encode())
    except OSError as error:
        raise StartupError(f"The master key file {file} cannot be written: {error.strerror}.") from error
