"""An MCP server over stdio or loopback HTTP: an agent checks and times its kernels. Needs the extra `mcp`."""
