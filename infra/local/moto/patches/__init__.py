"""Monkey patches for moto where it differs from AWS in what this project uses; `install()` applies them all.

They replace private names of moto, so they fit one version of moto only.
"""

from functools import cache
from importlib.metadata import version

from blizzard.errors import PermanentError

SUPPORTED_MOTO = "5.2.5"


class UnsupportedMoto(PermanentError):
    """The installed moto is not the version that the patches were written and tested against."""


@cache
def install() -> None:
    """Call before the first request of this process; a second call does nothing. Raises UnsupportedMoto."""
    check_version(version("moto"))
    # Imported after the check: these modules use names that another version of moto may lack.
    from infra.local.moto.patches import (
        bucket_policies,
        emr_serverless,
        eventbridge,
        lambda_functions,
        logs,
        s3,
        s3_eventbridge,
        s3_notifications,
        sqs,
        sqs_settings,
    )

    s3.make_writes_atomic()
    s3.match_keys_with_line_feeds()
    bucket_policies.evaluate_conditions()
    s3.refuse_parts_of_unknown_uploads()
    s3.send_events_like_aws()
    s3_eventbridge.send_events_to_eventbridge()
    s3_notifications.refuse_overlapping_notifications()
    sqs.index_messages()
    sqs.disable_event_source_mappings()
    sqs_settings.keep_policy_on_attribute_changes()
    sqs_settings.deduplicate_for_five_minutes()
    sqs_settings.support_redrive()
    eventbridge.deliver_only_matching_events()
    lambda_functions.run_functions()
    emr_serverless.run_jobs()
    logs.change_keys()
    logs.filter_by_stream_prefix()


def check_version(installed: str) -> None:
    if installed != SUPPORTED_MOTO:
        raise UnsupportedMoto(
            f"The local AWS needs moto {SUPPORTED_MOTO}, and moto {installed} is installed. Run `make setup`. "
            "To support another version, run tests/contract/test_local_aws.py with it first."
        )
