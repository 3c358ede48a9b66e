"""Clients that use plain HTTP, without trust anchors for TLS.

By default every httpx client loads the trust anchors of the system, which takes 40 ms.
"""

from __future__ import annotations

import ssl
from typing import Any, Final

import httpx

NO_TLS: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def client(base_url: httpx.URL | str = "", **settings: Any) -> httpx.AsyncClient:
    """A client for plain HTTP that follows no settings of the environment."""
    return httpx.AsyncClient(base_url=base_url, verify=NO_TLS, trust_env=False, **settings)
