"""What a query remembers of the declarations of its topics is bounded."""

import random

import pytest

from towpath.lakehouse.reading.declarations import Declaration, KnownDeclarations

MIB = 1 << 20


@pytest.mark.parametrize("seed", range(10))
def test_the_last_declarations_of_some_bytes_are_kept(seed: int) -> None:
    rng = random.Random(seed)
    known = KnownDeclarations()
    sizes = [rng.choice([10, MIB // 2, 3 * MIB]) for _ in range(40)]
    known.found.update({at: Declaration((), True, (None, bytes(size))) for at, size in enumerate(sizes)})
    known.forget()
    newest = [sum(sizes[at:]) <= 8 * MIB for at in range(40)]
    small = [at for at, size in enumerate(sizes) if newest[at]]
    assert list(known.found)[-len(small) :] == small
    assert sum(one.size for one in known.found.values()) <= 8 * MIB
