"""The page at /ui: lanes, tenants and models of a running server."""
