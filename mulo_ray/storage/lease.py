"""One live driver per output: a create-only lease with a heartbeat.

lease/lease-000001.json names the owner and is never rewritten; lease/beat-<token>.json is the owner's heartbeat.
The highest number owns. Takeover creates the next number, so that of two takers one wins, and an owner that was
asleep finds a higher one. A waiter believes changes of the heartbeat that it sees itself, never another clock.
Knows no run and no ledger.
"""

import contextlib
import dataclasses
import json
import logging
import random
import re
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any, Self

from mulo_ray.errors import ResumeError, StorageError
from mulo_ray.storage.identity import ProcessIdentity, is_alive, this_process
from mulo_ray.storage.store import Store

log = logging.getLogger(__name__)

FOLDER = "lease/"
_DYING_S = 1.0  # a driver killed just now may still be there for a moment, while its memory is freed
_LEASE = re.compile(r"lease/lease-\d{6}\.json")


class Lease:
    """Context manager: inside it this process is the only driver of `store`.

    Entering takes over a dead owner on this machine at once, and refuses a live one with ResumeError. An owner that
    cannot be asked (another machine, or hung) is watched: a heartbeat refuses, `ttl_s` seconds of silence take over;
    `wait=False` refuses it unwatched. `say` gets the countdown lines. Call `check()` now and then while working.
    """

    def __init__(
        self,
        store: Store,
        *,
        wait: bool = True,
        say: Callable[[str], None] = print,
        ttl_s: float = 30.0,
        heartbeat_s: float = 5.0,
    ) -> None:
        self.store = store
        self.wait = wait
        self.say = say
        self.ttl_s = ttl_s
        self.heartbeat_s = heartbeat_s
        self._token = uuid.uuid4().hex
        self._name = ""
        self._lost = ""
        self._beat_at = 0.0  # monotonic seconds of the last heartbeat that was written
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._beat_for_ever, name="lease-heartbeat", daemon=True)

    def __enter__(self) -> Self:
        try:
            while not self._acquire():
                time.sleep(random.uniform(0.05, 0.2))  # another taker was faster, or both stepped back
        except BaseException:
            with contextlib.suppress(StorageError):
                self.store.delete(_beat_name(self._token))
            raise
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        try:
            self._release()
        except StorageError as error:  # must not hide why the job ended; the next driver takes over
            log.warning("the lease of %s could not be released: %s", self.store.uri, error)

    def check(self) -> None:
        """Raise StorageError when another driver has the output, or when that cannot be found out."""
        if not self._lost and time.monotonic() - self._beat_at > self.ttl_s:
            self._look()  # heartbeats hung for so long that someone may have come
            if not self._lost:
                self._beat()
        if self._lost:
            raise StorageError(
                f"the lease of {self.store.uri} was lost: {self._lost}. This driver stops, so that only one writes; "
                "what is in the ledger is kept, and running the job again goes on from there"
            )

    def _acquire(self) -> bool:
        """One attempt; False means look again."""
        leases = self._leases()
        former = self._owner(leases[-1]) if leases else None
        if leases and former is None:
            return False  # released while we looked
        if former is not None:
            self._wait_for_death(leases[-1], former)
        number = int(leases[-1].removesuffix(".json")[-6:]) + 1 if leases else 1
        name = f"{FOLDER}lease-{number:06d}.json"
        self._beat()
        mine = {**dataclasses.asdict(this_process()), "token": self._token, "since": time.time()}
        if not self.store.create(name, json.dumps(mine).encode(), unique=True):
            return False
        # the dead lease must be there still, and ours the highest: else someone came and went, or came between
        now = self._leases()
        steady = now[-1] == name and (former is None or self._owner(leases[-1]) == former)
        if not steady or (self._owner(name) or {}).get("token") != self._token:
            self.store.delete(name)
            return False
        self._name = name
        for old in now[:-1]:
            self.store.delete(old)
        if former is not None:
            self.store.delete(_beat_name(former["token"]))
        return True

    def _wait_for_death(self, name: str, owner: dict[str, Any]) -> None:
        """Return when the owner is dead; raise ResumeError when it lives."""
        identity = ProcessIdentity(**{f.name: owner[f.name] for f in dataclasses.fields(ProcessIdentity)})
        alive = is_alive(identity)
        until = time.monotonic() + _DYING_S
        while alive and time.monotonic() < until:
            time.sleep(0.05)
            alive = is_alive(identity)
        if alive is False:
            self.say(f"taking over {self.store.uri} from process {owner['pid']} on this host, which is dead")
            return
        first = self._last_beat(owner)
        age_s = time.time() - first.get("time", owner["since"])
        who = f"process {owner['pid']} on {owner['host']}, started {_ago(time.time() - owner['since'])}"
        if (alive and age_s <= self.ttl_s) or not self.wait:
            raise ResumeError(self._refusal(who, age_s))
        silent_since = time.monotonic()
        while (left_s := self.ttl_s - (time.monotonic() - silent_since)) > 0:
            self.say(f"{self.store.uri} belongs to {who}; taking over in {left_s:.0f} s unless it shows life")
            time.sleep(min(self.heartbeat_s, left_s))
            if name not in self._leases():
                return  # released; what follows finds out who is next
            if self._last_beat(owner) != first:
                raise ResumeError(self._refusal(who, 0.0))

    def _refusal(self, who: str, age_s: float) -> str:
        return (
            f"{self.store.uri} is being written by {who} (last heartbeat {_ago(age_s)}); wait for it, stop it, or use "
            "another --output"
        )

    def _beat_for_ever(self) -> None:
        while not self._stop.wait(self.heartbeat_s) and not self._lost:
            try:
                self._look()
                if not self._lost:
                    self._beat()
            except Exception as error:  # a busy store is no loss yet: check() counts the seconds
                log.warning("heartbeat of %s failed: %s", self.store.uri, error)

    def _look(self) -> None:
        leases = self._leases()
        owner = self._owner(leases[-1]) if leases else None
        if owner is None or owner["token"] != self._token:
            self._lost = f"process {owner['pid']} on {owner['host']} took over" if owner else "its object is gone"

    def _beat(self) -> None:
        began = time.monotonic()
        beat = {"time": time.time(), "nonce": uuid.uuid4().hex}
        self.store.put(_beat_name(self._token), json.dumps(beat).encode())
        self._beat_at = began

    def _release(self) -> None:
        if not self._lost:
            self._look()
        if not self._lost:
            self.store.delete(self._name)
        self.store.delete(_beat_name(self._token))

    def _leases(self) -> list[str]:
        return [name for name in self.store.list(FOLDER) if _LEASE.fullmatch(name)]

    def _owner(self, name: str) -> dict[str, Any] | None:
        try:
            owner = json.loads(self.store.get(name))
            owner["token"], owner["pid"], owner["since"]
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError) as error:
            raise StorageError(f"{self.store.uri_of(name)} is no readable lease ({error}); delete it") from error
        return dict(owner)

    def _last_beat(self, owner: dict[str, Any]) -> dict[str, Any]:
        with contextlib.suppress(FileNotFoundError, ValueError):
            return dict(json.loads(self.store.get(_beat_name(owner["token"]))))
        return {}


def _beat_name(token: str) -> str:
    return f"{FOLDER}beat-{token}.json"


def _ago(seconds: float) -> str:
    return f"{max(seconds, 0):.0f} s ago"
