"""Natural loops of a kernel, which of them is hot, and its hot path."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from .disassembly import Instruction

Work = Callable[[Instruction], int]  # how much an instruction counts in choosing a loop and its path
_ENDS_PATH = re.compile(r"s_(endpgm|setpc|branch$)")


@dataclass
class Block:
    instructions: list[Instruction]
    successors: list[int] = field(default_factory=list)
    predecessors: list[int] = field(default_factory=list)

    @property
    def address(self) -> int:
        return self.instructions[0].address


@dataclass
class Loop:
    head: int  # block numbers
    latches: list[int]
    body: set[int]
    depth: int = 1


class ControlFlow:
    """Basic blocks, dominators and natural loops. Indirect jumps are treated as ends of a path."""

    def __init__(self, instructions: list[Instruction]):
        self.blocks = _split(instructions)
        self.roots: set[int] = set()
        self.order = self._reverse_postorder()
        self.rank = {block: rank for rank, block in enumerate(self.order)}
        self.dominator = self._dominators()
        self.loops = self._find_loops()

    def _reverse_postorder(self) -> list[int]:
        """From the entry; blocks that only an indirect jump reaches follow as further roots."""
        seen: set[int] = set()
        finished: list[list[int]] = []
        for root in range(len(self.blocks)):
            if root in seen:
                continue
            self.roots.add(root)
            part: list[int] = []
            stack = [(root, iter(self.blocks[root].successors))]
            seen.add(root)
            while stack:
                block, rest = stack[-1]
                following = next((s for s in rest if s not in seen), None)
                if following is None:
                    part.append(block)
                    stack.pop()
                else:
                    seen.add(following)
                    stack.append((following, iter(self.blocks[following].successors)))
            finished.append(part[::-1])
        return [block for part in finished for block in part]

    def _dominators(self) -> list[int]:
        """Immediate dominators (Cooper, Harvey and Kennedy); -1 stands above all roots."""
        dominator: list[int | None] = [None] * len(self.blocks)

        def meet(a: int, b: int) -> int:
            while a != b:
                if a == -1 or b == -1:
                    return -1
                if self.rank[a] > self.rank[b]:
                    a = dominator[a]  # type: ignore[assignment]
                else:
                    b = dominator[b]  # type: ignore[assignment]
            return a

        changed = True
        while changed:
            changed = False
            for block in self.order:
                known = [p for p in self.blocks[block].predecessors if dominator[p] is not None]
                above = -1 if block in self.roots else known[0]
                for other in known[1:]:
                    above = meet(above, other)
                if dominator[block] != above:
                    dominator[block], changed = above, True
        return [-1 if d is None else d for d in dominator]

    def dominates(self, above: int, block: int) -> bool:
        while block != -1 and block != above:
            block = self.dominator[block]
        return block == above

    def _find_loops(self) -> list[Loop]:
        by_head: dict[int, Loop] = {}
        for block in self.order:
            for head in self.blocks[block].successors:
                if self.rank[head] > self.rank[block]:
                    continue
                # A back edge whose target does not dominate it has several entries: keep to the addresses in between.
                low, high = self.blocks[head].address, self.blocks[block].address
                anywhere = self.dominates(head, block)
                if not anywhere and low > high:
                    continue
                body, pending = {head, block}, [block] if block != head else []
                while pending:
                    for p in self.blocks[pending.pop()].predecessors:
                        if p not in body and (anywhere or low <= self.blocks[p].address <= high):
                            body.add(p)
                            pending.append(p)
                loop = by_head.setdefault(head, Loop(head, [], set()))
                loop.latches.append(block)
                loop.body |= body
        loops = list(by_head.values())
        for loop in loops:
            loop.depth = sum(1 for other in loops if loop.body <= other.body)
        return loops

    def own_blocks(self, loop: Loop) -> set[int]:
        """The blocks of a loop that are in no loop within it."""
        inner = [other.body for other in self.loops if other is not loop and other.body < loop.body]
        return loop.body - set().union(*inner)

    def hot_path(self, loop: Loop, work: Work) -> list[Instruction]:
        """The path once around a loop that does most work and, among those, has fewest instructions.

        Blocks that a trip can skip (a rescale that is seldom needed, masks of the last tile) are thus left out, of two
        variants of the same work the shorter one is counted. Loops within the loop count as one trip.
        """
        best: dict[int, tuple[int, int, int]] = {}  # block: work, -instructions, predecessor
        for block in sorted(loop.body, key=self.rank.__getitem__):
            before = (0, 0, -1)
            if block != loop.head:
                options = [
                    (best[p][0], best[p][1], p)
                    for p in self.blocks[block].predecessors
                    if p in best and self.rank[p] < self.rank[block]
                ]
                if not options:
                    continue
                before = max(options)
            own = self.blocks[block].instructions
            best[block] = (before[0] + sum(map(work, own)), before[1] - len(own), before[2])
        block = max((latch for latch in loop.latches if latch in best), key=lambda latch: best[latch][:2], default=-1)
        if block == -1:  # entered in the middle: no order of its blocks
            return [i for number in sorted(loop.body) for i in self.blocks[number].instructions]
        path: list[int] = []
        while block != -1:
            path.append(block)
            block = best[block][2]
        return [i for number in reversed(path) for i in self.blocks[number].instructions]


def _split(instructions: list[Instruction]) -> list[Block]:
    index = {instruction.address: number for number, instruction in enumerate(instructions)}
    leaders = {0}
    for number, instruction in enumerate(instructions):
        if instruction.target in index:
            leaders.add(index[instruction.target])
        if instruction.target is not None or _ENDS_PATH.match(instruction.mnemonic):
            leaders.add(number + 1)
    starts = sorted(leader for leader in leaders if leader < len(instructions))
    blocks = [Block(instructions[a:b]) for a, b in zip(starts, starts[1:] + [len(instructions)])]
    by_start = {start: number for number, start in enumerate(starts)}
    for number, block in enumerate(blocks):
        last = block.instructions[-1]
        following = []
        if not _ENDS_PATH.match(last.mnemonic) and number + 1 < len(blocks):
            following.append(number + 1)
        if last.target in index and not last.mnemonic.startswith("s_call"):
            following.append(by_start[index[last.target]])
        block.successors = list(dict.fromkeys(following))
        for successor in block.successors:
            blocks[successor].predecessors.append(number)
    return blocks


def choose_loop(flow: ControlFlow, work: Work, head: int | None = None) -> Loop | None:
    """The innermost loop that holds most work, or the one whose head is at the address `head`.

    Work in a loop within another counts eight times as much for each level: it runs more often.
    """
    if head is not None:
        return next((loop for loop in flow.loops if flow.blocks[loop.head].address == head), None)

    def score(loop: Loop) -> tuple[int, int]:
        own = [i for block in flow.own_blocks(loop) for i in flow.blocks[block].instructions]
        return sum(map(work, own)) * 8 ** (loop.depth - 1), -len(own)

    return max(flow.loops, key=score, default=None)
