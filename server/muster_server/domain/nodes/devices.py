"""Which slots of a node are the same ones when it registers again. Pure."""

from __future__ import annotations

from collections.abc import Mapping


def match_slots(known: Mapping[int, str], reported: Mapping[int, str]) -> dict[int, int]:
    """Return the former index of each reported slot that the node had before, by its present one.

    A slot is known by the UUID of its device, whose index may move. Without one it is known by its
    index. Both arguments: UUIDs by index, "" where there is none.
    """
    former = {uuid: index for index, uuid in known.items() if uuid}
    found = {index: former.pop(uuid) for index, uuid in reported.items() if uuid in former}
    for index, uuid in reported.items():
        is_other = bool(uuid and known.get(index))
        if index in known and index not in found and index not in found.values() and not is_other:
            found[index] = index
    return found
