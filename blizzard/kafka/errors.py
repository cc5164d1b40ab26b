"""Errors of librdkafka, as they are for the job."""

import re

from confluent_kafka import KafkaError

from blizzard.config.kafka_options import KafkaOptions
from blizzard.errors import NeverAnswered, PermanentError, RetryableError

_REFUSED = frozenset(
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
_NO_RIGHT = frozenset({KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.TOPIC_AUTHORIZATION_FAILED})
_WITH_MEMBERS = frozenset({KafkaError.UNKNOWN_MEMBER_ID, KafkaError.NON_EMPTY_GROUP, KafkaError.REBALANCE_IN_PROGRESS})
_LOST = (KafkaError(KafkaError._TRANSPORT).str(), KafkaError(KafkaError._TIMED_OUT).str())
"""What the client says of a login in the middle of which the connection ended, with the code of a refusal."""
_UNVERIFIED = "certificate verify failed"
_ALERT = re.compile(r"SSL alert number ([0-9]+)")
_ALERTS_ABOUT_CERTIFICATES = frozenset({42, 43, 44, 45, 46, 48, 116})
"""Of TLS: the certificate is bad, unsupported, revoked, expired, unknown, of an unknown authority, or missing."""
_BOOTSTRAP = "/bootstrap: "
_NO_CONNECTION = frozenset({KafkaError._TRANSPORT, KafkaError._RESOLVE, KafkaError._TIMED_OUT})


def is_refusal(error: KafkaError) -> bool:
    """Whether only another configuration, or another right, ends it. A connection that just ends says nothing of the
    kind: one to a broker that is about to stop does so, too."""
    if error.code() == KafkaError._AUTHENTICATION and any(lost in error.str() for lost in _LOST):
        return False
    return error.code() in _REFUSED or _is_about_our_certificate(error)


def _is_about_our_certificate(error: KafkaError) -> bool:
    """Brokers judge a client's certificate after its own handshake: the client takes that for a lost connection."""
    alert = _ALERT.search(error.str()) if error.code() in (KafkaError._TRANSPORT, KafkaError._SSL) else None
    return alert is not None and int(alert[1]) in _ALERTS_ABOUT_CERTIFICATES


def read_error(error: KafkaError, about: str = "") -> PermanentError | RetryableError:
    """What it is for the job. `about`: the topic or partition that was asked for; empty: none alone. Texts of
    librdkafka have no passwords."""
    what = f"{about}: " if about else ""
    if is_refusal(error):
        return PermanentError(
            f"the brokers refuse to be read: {what}{error.str()} ({error.name()}). Nothing was committed. Correct "
            f"`kafka.security` of the source{_what_to_correct(error)}"
        )
    advice = ""
    if error.code() in _NO_CONNECTION and _BOOTSTRAP not in error.str():
        advice = (
            ". If a broker is down, this ends when it is back. Else the address is one that the brokers have told "
            "(`advertised.listeners`): expected one that is reached from here."
        )
    return RetryableError(f"the brokers cannot be read: {what}{error.str()} ({error.name()}){advice}")


def _what_to_correct(error: KafkaError) -> str:
    if _is_about_our_certificate(error):
        return (
            ": the brokers want the certificate of a client that they know. Expected it, and its key, in the files of "
            "`certificate_location` and `key_location`."
        )
    if error.code() == KafkaError._SSL and _UNVERIFIED in error.str():
        return (
            ": expected the authority of the brokers' certificate in `ca_location` (without it: among those of the "
            "system), and the certificate to be for the host name under which the broker is reached."
        )
    return ", or the rights of its user: it needs to read and describe the topics."


def group_error(group: str, error: KafkaError) -> PermanentError | RetryableError:
    """Why offsets cannot be published to the group."""
    said = (
        f"the offsets cannot be published to the consumer group {group}: {error.str()} ({error.name()}). The rows are "
        "committed all the same."
    )
    if error.code() in _NO_RIGHT:
        return PermanentError(
            f"{said} Give the user of `kafka.security` the rights to describe and to read this group, and to read the "
            "topics; or remove `publish_group`."
        )
    if error.code() in _WITH_MEMBERS:
        return PermanentError(
            f"{said} The group has members, whose own offsets these would replace. Let `publish_group` name one that "
            "no consumer belongs to, or end these consumers."
        )
    return RetryableError(said)


def never_answered(options: KafkaOptions, secs: float, newest: KafkaError | None) -> NeverAnswered:
    """`secs`: for how long it was tried. `newest`: what the client says; None: nothing."""
    said = "no connection, and no error" if newest is None else newest.str().replace(_BOOTSTRAP, ": ", 1)
    if newest is not None and newest.code() == KafkaError._ALL_BROKERS_DOWN:  # which only counts them
        said = "each connection ended without an answer"
    return NeverAnswered(
        f"(bootstrap_servers: {options.bootstrap_servers}) no broker has answered, tried for {secs:.0f} s: {said}. "
        f"Expected a Kafka broker there with a listener for {options.security.protocol}. Start it, or correct "
        "`kafka.bootstrap_servers`; if the listener is for another protocol, `kafka.security`. Brokers of a private "
        "network answer only inside it."
    )
