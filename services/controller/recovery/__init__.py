"""Commands that back the metadata store up, and that fill a new one while no process of Penstock runs. It imports `core`."""
