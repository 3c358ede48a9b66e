"""Secrets at rest: AES-256-GCM under a master key, and keyed fingerprints for look-up.

The master key file holds one key per line, `<id>:<base64 of 32 bytes>`, the current one first. A sealed text names
the key it was made with, so old and new keys work side by side while everything is re-encrypted. Fingerprints are
made under a key of their own, which is itself sealed in the database: rotating the master key leaves them alone.
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


class Vault:
    """Seals and unseals texts; `context` ties a sealed text to its place, so that it cannot be moved elsewhere."""

    def __init__(self, keys: Mapping[str, bytes], fingerprint_key: bytes = b"", *, file: Path | None = None) -> None:
        """`file` is where the keys came from: it is read again when something was sealed with a key added since."""
        self._ciphers = {key_id: AESGCM(key) for key_id, key in keys.items()}
        self._current = next(iter(keys))
        self._fingerprint_key = fingerprint_key
        self._file = file

    @classmethod
    def of_file(cls, file: Path) -> Vault:
        """The vault of a master key file, which is made when there is none. Raises StartupError."""
        return cls(ensure_master_keys(file), file=file)

    def with_fingerprint_key(self, sealed_key: str) -> Vault:
        """The same vault, able to make fingerprints."""
        self._fingerprint_key = base64.b64decode(self.unseal(sealed_key, "instance.fingerprintKey"))
        return self

    def new_fingerprint_key(self) -> str:
        """A fresh, sealed fingerprint key for a new instance."""
        return self.seal(base64.b64encode(secrets.token_bytes(32)).decode(), "instance.fingerprintKey")

    def fingerprint(self, secret: str) -> str:
        """The keyed fingerprint by which a secret is looked up."""
        return keyed_fingerprint(self._fingerprint_key, secret)

    def seal(self, plain: str, context: str) -> str:
        """Encrypt under the current master key."""
        nonce = os.urandom(12)
        sealed = self._ciphers[self._current].encrypt(nonce, plain.encode(), context.encode())
        return f"{_MARK}{self._current}:{base64.b64encode(nonce + sealed).decode()}"

    def unseal(self, sealed: str, context: str) -> str:
        """Decrypt. Raises StartupError when the master key is not among ours or the text was tampered with."""
        key_id, _, body = sealed.removeprefix(_MARK).partition(":")
        if not sealed.startswith(_MARK) or not self._knows(key_id):
            raise StartupError(
                f"A stored secret was sealed with the master key [{key_id or '?'}], which is not in the master key"
                " file. Put the old key back into the file (secrets.master_key_file), below the current one."
            )
        raw = base64.b64decode(body)
        try:
            return self._ciphers[key_id].decrypt(raw[:12], raw[12:], context.encode()).decode()
        except InvalidTag as error:
            raise StartupError(
                f"A stored secret cannot be decrypted: the master key [{key_id}] is not the one it was sealed with,"
                " or the stored text was changed."
            ) from error

    def _knows(self, key_id: str) -> bool:
        """Whether there is such a key, now that it is asked for.

        While processes are restarted one after the other with a new first key, those that are still to come meet what
        it has sealed already.
        """
        if key_id not in self._ciphers and self._file is not None:
            found = read_master_keys(self._file)
            self._ciphers |= {name: AESGCM(key) for name, key in found.items() if name not in self._ciphers}
        return key_id in self._ciphers

    def is_current(self, sealed: str) -> bool:
        """Whether a sealed text was made with the current master key."""
        return sealed.startswith(f"{_MARK}{self._current}:")


def is_sealed(value: object) -> bool:
    """Whether a stored value is a sealed text."""
    return isinstance(value, str) and value.startswith(_MARK)


def read_master_keys(file: Path) -> dict[str, bytes]:
    """The keys of a master key file, the current one first; StartupError names what is wrong with it."""
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
    """As `read_master_keys`; makes the file, mode 0600, when there is none."""
    if not file.exists():
        _put(file, {new_key_id(): secrets.token_bytes(32)}, data_dir.create_private)
    return read_master_keys(file)


def add_master_key(file: Path) -> str:
    """Put a new current key at the head of the file and answer its id."""
    keys = read_master_keys(file)
    key_id = new_key_id()
    _put(file, {key_id: secrets.token_bytes(32), **keys}, data_dir.write_private)
    return key_id


def new_key_id() -> str:
    """A short id for a master key."""
    return secrets.token_hex(4)


def _put(file: Path, keys: Mapping[str, bytes], put: Callable[[Path, bytes], None]) -> None:
    lines = "".join(f"{key_id}:{base64.b64encode(key).decode()}\n" for key_id, key in keys.items())
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        put(file, lines.encode())
    except OSError as error:
        raise StartupError(f"The master key file {file} cannot be written: {error.strerror}.") from error
