"""Tools for assistants that speak the Model Context Protocol, over the typed client.

`tools` is the one table of them; `muster mcp` serves it over stdio, and a server at /mcp. Needs the `mcp`
extra. What jobs and their authors wrote is untrusted: `answers` sets it apart in every answer.
"""

PRODUCT = "muster-mcp"
"""Name in User-Agent of calls that tools make: by it the audit trail marks what an assistant did."""
