"""What moto has wrong where this project looks: one function per repair, `install()` makes them all.

They replace names that moto keeps private, so they hold for one version of moto only.
"""

from functools import cache
from importlib.metadata import version

from blizzard.errors import PermanentError

SUPPORTED_MOTO = "5.2.5"


class UnsupportedMoto(PermanentError):
    """The installed moto is not the version that the repairs were written and tested against."""


@cache
def install() -> None:
    """Repair the moto of this process, before its first request; a second call does nothing.

    Raises UnsupportedMoto for any other version than SUPPORTED_MOTO.
    """
    check_version(version("moto"))
    # Only now, since another moto may lack what they import.
    from infra.local.moto.repairs import (
        bucket_policies,
        emr_serverless,
        eventbridge,
        lambda_functions,
        s3,
        s3_eventbridge,
        sqs,
        sqs_settings,
    )

    s3.make_writes_atomic()
    s3.find_keys_of_several_lines()
    bucket_policies.heed_conditions()
    s3.send_the_events_that_aws_sends()
    s3_eventbridge.announce_to_eventbridge()
    sqs.index_messages()
    sqs.leave_event_source_mappings_to_the_poller()
    sqs_settings.keep_settings_apart()
    sqs_settings.remember_what_was_sent()
    sqs_settings.move_messages_back()
    eventbridge.deliver_only_what_rules_match()
    lambda_functions.run_functions()
    emr_serverless.run_jobs()


def check_version(installed: str) -> None:
    if installed != SUPPORTED_MOTO:
        raise UnsupportedMoto(
            f"The local AWS needs moto {SUPPORTED_MOTO}, and moto {installed} is installed. "
            f"Run `make setup`; to move to another moto, run tests/contract/test_local_aws.py against it first."
        )
