"""A TLS context without trust anchors for clients that use plain HTTP.

By default every httpx client loads the trust anchors of the system, which takes 40 ms.
"""

from __future__ import annotations

import ssl
from typing import Final

NO_TLS: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
