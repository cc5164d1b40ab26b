"""Of two processes that create the same object, one succeeds, each time."""

from pathlib import Path

from blizzard.storage.s3 import S3Settings, S3Store
from tests.contract.real_s3.racing import complete_uploads, create_objects, race
from tests.fixtures_s3 import BUCKET
from tests.fixtures_versitygw import REGION, S3Server, serving

ROUNDS, UPLOADS = 150, 40


def check(winners: list[list[int]], rounds: int, held: list[bytes]) -> None:
    """`held`: the content of each object, which is the number of its writer."""
    first, second = map(set, winners)
    assert len(first & second) == 0, f"{len(first & second)} of {rounds} rounds had two winners"
    assert len(first | second) == rounds, f"{rounds - len(first | second)} of {rounds} rounds had no winner"
    assert held == [b"0" if number in first else b"1" for number in range(rounds)]
    assert first, "one process won every round: this was no race"
    assert second, "one process won every round: this was no race"


def held(server: S3Server, prefix: str, rounds: int) -> list[bytes]:
    store = S3Store(BUCKET, prefix, S3Settings(server.endpoint, REGION))
    return [store.get(f"{number:04}") for number in range(rounds)]


def test_two_processes_have_one_winner_for_each_object(versitygw: S3Server) -> None:
    place = (versitygw.endpoint, BUCKET, "race/", str(ROUNDS))
    check(race(create_objects, place, place), ROUNDS, held(versitygw, "race/", ROUNDS))


def test_two_processes_at_two_servers_of_one_folder_have_one_winner(
    versitygw: S3Server, versitygw_program: Path
) -> None:
    with serving(versitygw_program, versitygw.folder.parent) as second:
        places = [(server.endpoint, BUCKET, "two/", str(ROUNDS)) for server in (versitygw, second)]
        check(race(create_objects, *places), ROUNDS, held(versitygw, "two/", ROUNDS))


def test_two_processes_that_complete_conditional_uploads_have_one_winner(versitygw: S3Server) -> None:
    """As S3A does when a commit is larger than a part."""
    place = (versitygw.endpoint, BUCKET, "uploads/", str(UPLOADS))
    check(race(complete_uploads, place, place), UPLOADS, held(versitygw, "uploads/", UPLOADS))
