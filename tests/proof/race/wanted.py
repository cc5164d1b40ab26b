"""What a long run of the campaign has to show, and the places on which it has to."""

from tests.proof import large_file, new_fields, widening
from tests.proof.campaign import Run, check_shown
from tests.proof.file_names import IN_PARTITIONS, RANDOM_NAMES
from tests.proof.job_engines import JOBS_OF, LOST_TO_THE_OTHER, RACES
from tests.proof.race.names import OPERATIONS
from tests.proof.race.widenings import LOST_TO_OTHERS, LOST_TO_THE_SAME, widened_races

PLACES = ("local files", "S3")
"""Names of the places; the rounds use them in turn."""
ROUNDS_FOR_ALL = 6
"""Rounds after which the campaign fails unless each SQL operation has succeeded on each place, and a race was lost."""
ROUNDS_FOR_WIDENED = 20
"""The same, unless columns were widened on each place, and a widening lost its race."""


def operation_on(place: str, name: str) -> str:
    """Name of the count."""
    return f"operations of others on {place}: {name}"


WANTED = (
    "races lost",
    new_fields.ADDED,
    *JOBS_OF.values(),
    RANDOM_NAMES,
    IN_PARTITIONS,
    "files that VACUUM removed",
    *map(large_file.commits_of_a_part, PLACES),
    *(operation_on(place, name) for name in OPERATIONS for place in PLACES),
)
"""Counts."""
WANTED_OF_WIDENED = (*map(widened_races, PLACES), *map(widening.widened_on, PLACES), LOST_TO_THE_SAME, widening.RESCUED)
ALL_WANTED = (*WANTED, *RACES, *LOST_TO_THE_OTHER, *WANTED_OF_WIDENED, LOST_TO_OTHERS)


def check(run: Run) -> None:
    """Raises Failed if a run of so many rounds has not shown what it must."""
    rounds = run.counts["rounds"]
    check_shown(run, WANTED if rounds >= ROUNDS_FOR_ALL else ())
    check_shown(run, WANTED_OF_WIDENED if rounds >= ROUNDS_FOR_WIDENED else ())
