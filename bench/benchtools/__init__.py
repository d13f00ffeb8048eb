"""What bench/isa_report and bench/model are made of."""

from __future__ import annotations

from typing import Any

Record = dict[str, Any]  # what JSON reports hold of a kernel
