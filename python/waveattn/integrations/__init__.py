"""Plug-ins for other packages. Nothing is changed on import: each module has an ``activate`` that the user calls."""
