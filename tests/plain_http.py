"""What httpx shall trust where no TLS is spoken: nothing, made once.

Without it every client reads the machine's hundreds of trust anchors: 40 ms, twice in a common test.
"""

from __future__ import annotations

import ssl
from typing import Final

NO_TLS: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
