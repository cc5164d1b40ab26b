"""Which runs to merge: the cost of a merge is spread over many commits, and the number of runs grows with the logarithm
of the files."""

from collections.abc import Iterator, Sequence

from blizzard.state.run_ref import RunRef

FACTOR = 10
"""As many neighbouring runs of one tier become a run of the next, so each tier has fewer."""
_TIER_0_FILES = 100


def runs_to_merge(refs: Sequence[RunRef], factor: int = FACTOR) -> Sequence[RunRef]:
    """Neighbours to merge into one run, from the smallest tier that has enough of them; empty if none has.

    `refs` are ascending, `factor` is at least 2. Neighbours follow each other without a gap. A run between larger ones
    is merged with them in the end.
    """
    tiers = [_tier(ref.files, factor) for ref in refs]
    for tier in range(max(tiers, default=-1) + 1):
        for group in _neighbours(refs, tiers, tier):
            if sum(own_tier == tier for _, own_tier in group) >= factor:
                return [ref for ref, _ in group]
    return ()


def _neighbours(refs: Sequence[RunRef], tiers: Sequence[int], highest: int) -> Iterator[list[tuple[RunRef, int]]]:
    """Runs that follow each other, none of a tier above `highest`, each with its tier."""
    group: list[tuple[RunRef, int]] = []
    for ref, tier in zip(refs, tiers, strict=True):
        if tier > highest or (group and group[-1][0].last + 1 != ref.first):
            yield group
            group = []
        if tier <= highest:
            group.append((ref, tier))
    yield group


def _tier(files: int, factor: int) -> int:
    tier = 0
    while files >= _TIER_0_FILES * factor:
        tier, files = tier + 1, files // factor
    return tier
