"""How does the WMMA kernel compare with torch's SDPA on the same card? Median of 20 launches each, bf16."""

import argparse
import statistics

import torch
import waveattn


def median_ms(call) -> float:
    for _ in range(3):
        call()
    times = []
    for _ in range(20):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        call()
        stop.record()
        stop.synchronize()
        times.append(start.elapsed_time(stop))
    return statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--heads", type=int, default=16)
    parser.add_argument("--tokens", type=int, default=4096)
    options = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("needs a GPU: the emulator has no times")
    for dim in (64, 128):
        q, k, v = (torch.randn(1, options.heads, options.tokens, dim, device="cuda", dtype=torch.bfloat16) for _ in range(3))
        for causal in (False, True):
            flop = 4 * options.heads * options.tokens**2 * dim * (0.5 if causal else 1)
            rule = "top_left" if causal else None
            for name, call in (
                ("waveattn", lambda: waveattn.flash_attention(q, k, v, causal=rule, backend="wmma")),
                ("torch SDPA", lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)),
            ):
                time = median_ms(call)
                print(f"d{dim} {'causal' if causal else 'dense '} {name}: {time:.3f} ms, {flop / time * 1e-9:.1f} TFLOP/s")


if __name__ == "__main__":
    main()
