"""Media that a script logs per step: what there is, its bounds, and its content as bytes.

Pure, and needs nothing but the standard library: the SDK uses it in the training process, and the
shim for what it reads from files of other tools.
"""

from .content import (
    EXTENSIONS,
    KINDS,
    PLOTLY,
    ROWS_MAX,
    confusion_matrix_content,
    histogram_content,
    pr_curve_content,
    table_content,
    why_unfit,
)
from .limits import (
    BYTES_PER_MINUTE,
    CAPTION_MAX_CHARS,
    FILES_MAX,
    INLINE_BYTES,
    INLINE_TOTAL_BYTES,
    ITEM_MAX_BYTES,
    ITEMS_BURST,
    ITEMS_MAX,
    ITEMS_PER_S,
    SIDE_MAX_PIXELS,
    DropReason,
    MediaBudget,
)

__all__ = [
    "BYTES_PER_MINUTE",
    "CAPTION_MAX_CHARS",
    "EXTENSIONS",
    "FILES_MAX",
    "INLINE_BYTES",
    "INLINE_TOTAL_BYTES",
    "ITEMS_BURST",
    "ITEMS_MAX",
    "ITEMS_PER_S",
    "ITEM_MAX_BYTES",
    "KINDS",
    "PLOTLY",
    "ROWS_MAX",
    "SIDE_MAX_PIXELS",
    "DropReason",
    "MediaBudget",
    "confusion_matrix_content",
    "histogram_content",
    "pr_curve_content",
    "table_content",
    "why_unfit",
]
