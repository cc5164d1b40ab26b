"""Errors of librdkafka, as they are for the job."""

from confluent_kafka import KafkaError

from blizzard.config.kafka_options import KafkaOptions
from blizzard.errors import NeverAnswered, PermanentError, RetryableError

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
_BOOTSTRAP = "/bootstrap: "
_NO_CONNECTION = frozenset({KafkaError._TRANSPORT, KafkaError._RESOLVE, KafkaError._TIMED_OUT})


def read_error(error: KafkaError) -> PermanentError | RetryableError:
    """What it is for the job. Texts of librdkafka have no passwords."""
    if error.code() in REFUSED:
        return PermanentError(
            f"the brokers refuse to be read: {error.str()} ({error.name()}). Nothing was committed. Correct "
            "`kafka.security` of the source, or the rights of its user: it needs to read and describe the topics."
        )
    advice = ""
    if error.code() in _NO_CONNECTION and _BOOTSTRAP not in error.str():
        advice = (
            ". If a broker is down, this ends when it is back. Else the address is one that the brokers have told "
            "(`advertised.listeners`): expected one that is reached from here."
        )
    return RetryableError(f"the brokers cannot be read: {error.str()} ({error.name()}){advice}")


def never_answered(options: KafkaOptions, secs: float, newest: KafkaError | None) -> NeverAnswered:
    """`secs`: for how long it was tried. `newest`: what the client says; None: nothing."""
    said = "no connection, and no error" if newest is None else newest.str().replace(_BOOTSTRAP, ": ", 1)
    return NeverAnswered(
        f"(bootstrap_servers: {options.bootstrap_servers}) no broker has answered, tried for {secs:.0f} s: {said}. "
        f"Expected a Kafka broker there with a listener for {options.security.protocol}. Start it, or correct "
        "`kafka.bootstrap_servers`; if the listener is for another protocol, `kafka.security`. Brokers of a private "
        "network answer only inside it."
    )
