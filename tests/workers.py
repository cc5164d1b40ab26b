"""Which of several workers runs which tests (`make test` starts four)."""

from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

ALONE = "tests/e2e/"
ONE_SESSION = (
    "tests/proof/log_life/test_log_life.py",
    "tests/proof/engines/test_engines.py",
    "tests/proof/takeover/test_takeover.py",
    "tests/proof/bad_input/test_bad_input_job.py",
    "tests/spark/test_bench_small.py",
)
"""The longest of the files that use the one Spark session of their worker; tests/spark has the others."""
ONE_JVM = ("tests/proof/kill/test_kill.py", "tests/proof/race/test_race.py")
"""They share a JVM beside their worker."""
ONE_CLUSTER = ("tests/cluster/", "tests/proof/cluster/")
"""They share a standalone cluster, whose cores one job takes."""
ONE_BROKER = "tests/kafka/"
"""They share a broker."""
OTHER_SESSION = "tests/spark/"
LONGEST_FIRST = (
    ALONE,
    ONE_SESSION[0],
    OTHER_SESSION,
    ONE_CLUSTER[0],
    ONE_BROKER,
    "tests/proof/",
    "tests/stack/test_iam",
    "tests/upgrade/",
    "tests/crash/",
    "tests/contract/",
    "tests/unit/test_protocol_machine",
    "tests/",
)


class ByFixture(LoadScopeScheduling):
    """A file goes to one worker as a whole, so that its fixtures are made once; what takes long goes first, so that no
    worker is left alone with it.

    All of ALONE goes to one worker: two deployed stacks at a time, each with Spark jobs, would wait for each other
    until their tests give up. What shares a Spark session goes to two workers: starting a JVM and its first queries
    take longer than most of these files.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        for together in (ONE_SESSION, ONE_JVM):
            if file in together:
                return together[0]
        if file.startswith(ONE_CLUSTER):
            return ONE_CLUSTER[0]
        return next((start for start in (ALONE, OTHER_SESSION, ONE_BROKER) if file.startswith(start)), file)

    def _assign_work_unit(self, node: WorkerController) -> None:
        self.workqueue.move_to_end(min(self.workqueue, key=_rank), last=False)
        super()._assign_work_unit(node)


def _rank(scope: str) -> int:
    return next((rank for rank, start in enumerate(LONGEST_FIRST) if scope.startswith(start)), len(LONGEST_FIRST))
