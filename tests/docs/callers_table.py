"""Which roles answer the methods of which contract, as docs/security.md names them."""

from libs.roles import CONTROLLER, GATEWAY, GROUP_COORDINATOR, QUOTA_MANAGER, STORAGE, TRANSACTION_COORDINATOR
from tests.support.requirements import ROOT

PAGE = ROOT / "docs" / "security.md"
ANSWERS = {
    "controller": CONTROLLER,
    "storage": STORAGE,
    "groups": GROUP_COORDINATOR,
    "transactions": TRANSACTION_COORDINATOR,
    "quotas": QUOTA_MANAGER,
}
"""The role by the first word of a method. Every role answers the others."""
ORDER = (GATEWAY, STORAGE, CONTROLLER, GROUP_COORDINATOR, TRANSACTION_COORDINATOR, QUOTA_MANAGER)
