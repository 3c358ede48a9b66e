"""The load: users are created and log in with one-time codes, through any process, like a client behind a proxy.

Every user has an id that its worker chose, and is created again until a response confirms it: afterwards it must exist
once. Every one-time code is used by two requests at the same time: at most one of them may succeed.
"""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import time
from collections.abc import Sequence

import httpx

from bench.instance import API_KEY, TENANT_ID
from identity.ids import new_id

APPLICATION_ID = "0f1d3c5b-7a90-4b1e-8c2d-3e4f5a6b7c8d"
_TIMEOUT_SECONDS = 15
_PAUSE_SECONDS = 0.05
_HEADERS = {"Authorization": API_KEY, "X-FusionAuth-TenantId": TENANT_ID}


@dataclasses.dataclass
class Outcome:
    """What the workers observed; instants are monotonic seconds."""

    created: set[str] = dataclasses.field(default_factory=set)
    logins: list[float] = dataclasses.field(default_factory=list)
    failures: list[tuple[float, str]] = dataclasses.field(default_factory=list)
    lost_codes: list[float] = dataclasses.field(default_factory=list)
    doubled_codes: int = 0


class Load:
    """Workers against the processes at `urls`; a request goes to the next process if one refuses the connection."""

    def __init__(self, urls: Sequence[str], workers: int) -> None:
        self.outcome = Outcome()
        self._urls = urls
        self._turns = itertools.count()
        self._is_stopping = False
        self._client = httpx.AsyncClient(timeout=_TIMEOUT_SECONDS, trust_env=False, headers=_HEADERS)
        self._tasks = [asyncio.create_task(self._work()) for _ in range(workers)]

    async def stop(self) -> Outcome:
        """End the workers after their current cycle, and return what they observed."""
        self._is_stopping = True
        await asyncio.gather(*self._tasks)
        return self.outcome

    async def verify(self) -> list[str]:
        """Return the confirmed users that do not exist."""
        missing = []
        for user_id in self.outcome.created:
            answer = await self._send("GET", f"/api/user/{user_id}")
            if answer is None or answer.status_code != 200:
                missing.append(user_id)
        await self._client.aclose()
        return missing

    async def _work(self) -> None:
        while not self._is_stopping:
            user_id = await self._create_user()
            if user_id is not None:
                await self._log_in(user_id)
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _create_user(self) -> str | None:
        user_id = new_id()
        body = {
            "user": {"username": user_id, "password": "password of a test"},
            "registration": {"applicationId": APPLICATION_ID},
        }
        while not self._is_stopping:
            answer = await self._send("POST", f"/api/user/registration/{user_id}", body)
            # A repetition of a request whose response was lost finds the id taken.
            if answer is not None and (answer.status_code == 200 or "[duplicate]" in answer.text):
                self.outcome.created.add(user_id)
                return user_id
            if answer is not None and answer.status_code < 500:
                raise RuntimeError(f"unexpected response {answer.status_code}: {answer.text}")
            await asyncio.sleep(_PAUSE_SECONDS)
        return None

    async def _log_in(self, user_id: str) -> None:
        begin = {"applicationId": APPLICATION_ID, "loginId": user_id, "loginIdTypes": ["username"]}
        started = await self._send("POST", "/api/passwordless/start", begin)
        if started is None or started.status_code != 200:
            return
        code = {"code": started.json()["code"], "applicationId": APPLICATION_ID}
        answers = await asyncio.gather(*(self._send("POST", "/api/passwordless/login", code) for _ in range(2)))
        succeeded = sum(answer is not None and answer.status_code in {200, 202} for answer in answers)
        is_unclear = any(answer is None or answer.status_code >= 500 for answer in answers)
        self.outcome.doubled_codes += succeeded > 1
        if succeeded:
            self.outcome.logins.append(time.monotonic())
        elif not is_unclear:
            self.outcome.lost_codes.append(time.monotonic())

    async def _send(self, method: str, path: str, body: object = None) -> httpx.Response | None:
        """Send a request; the response, or None if no process answered."""
        first = next(self._turns)
        for number in range(first, first + len(self._urls)):
            url = self._urls[number % len(self._urls)]
            try:
                answer = await self._client.request(method, url + path, json=body)
            except httpx.ConnectError:
                continue
            except httpx.HTTPError as error:
                self.outcome.failures.append((time.monotonic(), type(error).__name__))
                return None
            if answer.status_code >= 500:
                self.outcome.failures.append((time.monotonic(), str(answer.status_code)))
            return answer
        self.outcome.failures.append((time.monotonic(), "no process"))
        return None
