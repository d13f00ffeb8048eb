"""One module for each kernel; each registers its backends when it is imported (see ``waveattn._registry``)."""
