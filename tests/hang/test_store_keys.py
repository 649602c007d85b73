"""Store keys name the group in whose creation ranks waited, and who did not come to it."""

from pathlib import Path

import pytest

from nccldoctor import doctor

KEY = "[rank{}]: torch.distributed.DistStoreError: wait timeout after 6000ms, keys: /default_pg/0//{}//cpu//0/{}\n"


@pytest.mark.parametrize(
    ("waits", "named"),
    [
        ([(0, 2, 2), (1, 2, 2)], (2,)),  # all but the last rank of the job wait
        ([(1, 1, 0), (2, 1, 0), (3, 1, 0)], (0,)),
        ([(1, 9, 1), (5, 9, 1)], (3,)),
        ([(0, 4, 2), (8, 4, 2), (24, 4, 2)], (16,)),  # a data parallel group
        ([(0, 4, 2), (1, 4, 2), (7, 4, 2)], ()),
        ([(0, 3, 1), (1, 2, 2), (2, 3, 1)], (1,)),  # one group fewer than the others
        ([(0, 2, 2), (1, 2, 2), (2, 3, 0)], (2,)),  # one group more than the others
    ],
)
def test_who_did_not_come(
    waits: list[tuple[int, int, int]], named: tuple[int, ...], tmp_path: Path
) -> None:
    (tmp_path / "job.err").write_text("".join(KEY.format(*wait) for wait in waits))
    verdict = doctor.examine([str(tmp_path)]).verdict
    assert (verdict.code, verdict.ranks) == ("INIT10", named), verdict.headline
