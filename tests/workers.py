"""Which of several workers runs which tests (`make test` starts three)."""

from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

ALONE = "tests/e2e/"
LONGEST_FIRST = (
    ALONE,
    "tests/proof/",
    "tests/spark/",
    "tests/stack/test_iam",
    "tests/crash/",
    "tests/contract/",
    "tests/unit/test_protocol_machine",
    "tests/",
)


class ByFixture(LoadScopeScheduling):
    """A file goes to one worker as a whole, so that its fixtures are made once; what takes long goes first, so that no
    worker is left alone with it.

    All of ALONE goes to one worker: two deployed stacks at a time, each with Spark jobs, would wait for each other
    until their tests give up.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return ALONE if file.startswith(ALONE) else file

    def _assign_work_unit(self, node: WorkerController) -> None:
        self.workqueue.move_to_end(min(self.workqueue, key=_rank), last=False)
        super()._assign_work_unit(node)


def _rank(scope: str) -> int:
    return next((rank for rank, start in enumerate(LONGEST_FIRST) if scope.startswith(start)), len(LONGEST_FIRST))
