"""Classes of instructions, as the tables count them."""

from __future__ import annotations

import re

# In the order of the table; every instruction is in exactly one.
CLASSES = (
    "matrix",
    "trans",
    "valu",
    "lds_read",
    "lds_write",
    "lds_permute",
    "lds_dma",
    "global_load",
    "global_store",
    "scratch",
    "barrier",
    "wait",
    "scalar",
    "branch",
    "other",
)
# Finer counts, each part of one of the classes above; both operations of a dual-issue instruction count.
DETAILS = (
    "dot",
    "fma",
    "packed",
    "convert",
    "max",
    "move",
    "lane_exchange",
    "dual_issue",
    "scalar_load",
    "nop",
    "setprio",
    "call",
    "unknown",
)

_RULES: list[tuple[str, str]] = [
    (r"v_(s?mfmac?|wmma|swmmac)_", "matrix"),
    (r"v_(s_)?(exp|log|rcp|rsq|sqrt|sin|cos|tanh)_", "trans"),
    (r"v_nop$", "other"),
    (r"v_", "valu"),
    (r"ds_(bpermute|permute|swizzle)", "lds_permute"),
    (r"ds_(write|store)", "lds_write"),
    (r"ds_(read|load|consume|append|ordered|condxchg)", "lds_read"),
    (r"ds_(nop|gws|bvh)", "other"),
    (r"ds_", "lds_write"),  # atomics
    (r"scratch_", "scratch"),
    (r"(global|flat|buffer|tbuffer|image)_(load|gather|sample|atomic)", "global_load"),
    (r"(global|flat|buffer|tbuffer|image)_store", "global_store"),
    (r"(global|buffer)_", "other"),  # cache control
    (r"s_barrier(_wait)?$", "barrier"),
    (r"s_wait", "wait"),
    (r"s_(c?branch|setpc|swappc|call|subvector_loop)", "branch"),
    (
        r"s_(barrier_|nop|setprio|sleep|delay_alu|clause|endpgm|code_end|trap|sethalt|sendmsg|inst_prefetch|prefetch"
        r"|icache|dcache|set_inst_prefetch|ttrace|round_mode|denorm_mode|set_gpr|wakeup|version|incperf|decperf)",
        "other",
    ),
    (r"s_", "scalar"),
]
_COMPILED = [(re.compile(pattern), name) for pattern, name in _RULES]
_DMA = re.compile(r"(?:^|\s)lds(?:\s|$)")
_FMA = re.compile(r"v_(pk_|dual_)?(fma|fmac|mad|mac|fmaak|fmamk|fmaakf|madak|madmk)")
_DPP = re.compile(r"\b(quad_perm|row_|wave_|dpp8)")
_DETAIL_RULES = [
    (re.compile(r"v_(dual_)?dot"), "dot"),
    (_FMA, "fma"),
    (re.compile(r"v_pk_\w+_f32"), "packed"),
    (re.compile(r"v_(pk_)?cvt_"), "convert"),
    (re.compile(r"v_(pk_|dual_)?max"), "max"),
    (re.compile(r"v_(dual_)?(mov|swap)_|v_accvgpr"), "move"),
    (re.compile(r"v_permlane"), "lane_exchange"),
    (re.compile(r"s_(buffer_)?load"), "scalar_load"),
    (re.compile(r"s_nop"), "nop"),
    (re.compile(r"s_setprio"), "setprio"),
    (re.compile(r"s_(swappc|call)"), "call"),
]


def classify(mnemonic: str, operands: str) -> tuple[str, list[str]]:
    """The class of an instruction and the details that it counts for."""
    if mnemonic.startswith("."):
        return "other", ["unknown"]
    name = next((name for pattern, name in _COMPILED if pattern.match(mnemonic)), "other")
    if name == "global_load" and ("_load_lds_" in mnemonic or _DMA.search(operands)):
        name = "lds_dma"
    details = [detail for pattern, detail in _DETAIL_RULES if pattern.match(mnemonic)]
    if name == "valu" and _DPP.search(operands):
        details.append("lane_exchange")
    if (second := _second_half(operands)) is not None:
        details.append("dual_issue")
        details += [detail for pattern, detail in _DETAIL_RULES if pattern.match(second)]
    return name, details


def _second_half(operands: str) -> str | None:
    """Mnemonic of the second operation of a dual-issue instruction."""
    return operands.split("::")[1].split()[0] if "::" in operands else None


def multiply_adds(mnemonic: str, operands: str) -> int:
    """Multiply-add and dot-product operations of an instruction: the work of a kernel without matrix instructions."""
    names = [mnemonic, _second_half(operands) or ""]
    return sum(_FMA.match(name) is not None or name.startswith(("v_dot", "v_dual_dot")) for name in names)
