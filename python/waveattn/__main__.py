"""``python -m waveattn`` prints what was found; ``python -m waveattn demo`` runs the main job."""

from __future__ import annotations

import argparse
import pathlib
from collections.abc import Sequence

from . import info


def print_info() -> None:
    """Prints ``waveattn.info()`` for people."""
    found = info()
    print(f"waveattn {found['version']}, code objects for {', '.join(found['targets'])}")
    for name in ("rocm", "emulator"):
        status = found[name]
        if status["loaded"]:
            major, rest = divmod(status["version"], 10_000_000)
            print(f"{name + ':':10s}{status['path']} ({status['origin']}, HIP {major}.{rest // 100_000})")
        else:
            print(f"{name + ':':10s}not found; tried")
            for place in status["tried"]:
                print(f"{'':12s}{place}")
    print("GPU:      " + ("available" if found["available"] else f"none usable: {found['reason']}"))
    print("devices:")
    for device in found["devices"]:
        kind = "emulated" if device["emulated"] else "GPU"
        print(f"  {device['ordinal']:4d}  {kind:9s}{device['gcn_arch']:24s}{device['name']}, {device['compute_units']} units")
    print("kernels:")
    for operation, backends in found["backends"].items():
        for backend in backends:
            asked = "" if backend["automatic"] else ", only where asked for"
            print(f"  {operation:16s} {backend['name']:12s} {', '.join(backend['targets'])}; {', '.join(backend['dtypes'])}{asked}")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m waveattn", description=__doc__)
    commands = parser.add_subparsers(dest="command")
    commands.add_parser("info", help="what was found (the default)")
    demo = commands.add_parser("demo", help="attention of a real model on every target, compared with references")
    demo.add_argument("--picture", default="demo.png", metavar="FILE", help="where the picture goes (default demo.png)")
    demo.add_argument("--targets", default="", metavar="LIST", help="comma list of targets (default: all that are there)")
    demo.add_argument("--layers", type=int, default=3, choices=(1, 2, 3), help="how many of the captured layers to run (default 3)")
    options = parser.parse_args(arguments)
    if options.command == "demo":
        folder = pathlib.Path(options.picture).parent
        if not folder.is_dir():
            demo.error(f"argument --picture: there is no folder {folder}")
        from . import demo as job

        return job.main(options.picture, [name for name in options.targets.split(",") if name], options.layers)
    print_info()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
