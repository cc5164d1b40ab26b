"""Errors of librdkafka, as they are for the job."""

from confluent_kafka import KafkaError

from blizzard.errors import PermanentError, RetryableError

REFUSED = frozenset(
    {
        KafkaError._AUTHENTICATION,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError._SSL,
        KafkaError._INVALID_ARG,
    }
)
"""Codes of errors that only another configuration, or another right, ends."""
OF_NO_GROUP = KafkaError.GROUP_AUTHORIZATION_FAILED
"""librdkafka looks for the coordinator of a group that nothing is asked of. Whoever reads needs no right to it."""


def read_error(error: KafkaError) -> PermanentError | RetryableError:
    """What it is for the job. Texts of librdkafka have no passwords."""
    if error.code() in REFUSED:
        return PermanentError(
            f"the brokers refuse to be read: {error.str()} ({error.name()}). Nothing was committed. Correct "
            "`kafka.security` of the source, or the rights of its user: it needs to read and describe the topics."
        )
    return RetryableError(f"the brokers cannot be read: {error.str()} ({error.name()})")
