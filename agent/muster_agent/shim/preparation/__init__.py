"""PREPARE: what is fetched, unpacked and checked before a gang is started."""
