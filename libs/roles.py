"""The roles of Penstock's processes. The set is closed: an RPC server refuses the hello of any other role."""

from typing import Final

STORAGE: Final = "storage"
GATEWAY: Final = "gateway"
CONTROLLER: Final = "controller"
GROUP_COORDINATOR: Final = "group_coordinator"
TRANSACTION_COORDINATOR: Final = "transaction_coordinator"
QUOTA_MANAGER: Final = "quota_manager"

ROLES: Final = frozenset({STORAGE, GATEWAY, CONTROLLER, GROUP_COORDINATOR, TRANSACTION_COORDINATOR, QUOTA_MANAGER})
