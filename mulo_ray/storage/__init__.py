"""Bytes out: objects by key, the ledger of what is done, the run's identity and its one live driver.

Knows no Ray, no torch, no image: callers hand over encoded bytes and rows.
"""

from mulo_ray.storage.keys import key_of, object_name
from mulo_ray.storage.lease import Lease
from mulo_ray.storage.ledger import Ledger
from mulo_ray.storage.resume import Plan, plan
from mulo_ray.storage.retry import RetryPolicy
from mulo_ray.storage.run_file import claim_run
from mulo_ray.storage.store import Store

__all__ = ["Lease", "Ledger", "Plan", "RetryPolicy", "Store", "claim_run", "key_of", "object_name", "plan"]
