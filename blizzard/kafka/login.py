"""How the clients of a source log in: librdkafka's settings, as plain text, with what only the place of the job has."""

from collections.abc import Callable, Mapping

from blizzard.config.kafka_options import MSK_IAM, KafkaOptions
from blizzard.environment import variables
from blizzard.errors import ConfigError
from blizzard.kafka.msk_token import config_text
from blizzard.kafka.secret import UsedSecret

SECRET_CHANGED = "The secret holds another login by now, which the next attempt has."


class Login:
    """Of one source. `environ`: the process's variables."""

    def __init__(self, options: KafkaOptions, environ: Callable[[], Mapping[str, str]] = variables) -> None:
        self._options = options
        self._environ = environ
        self._secret = UsedSecret(options.security.secret)

    def settings(self) -> dict[str, str]:
        """For clients of any kind, also in tasks, with the passwords, so this is never logged. A secret is read once
        in this process. Raises ConfigError if no region is known; errors as of `login_of`."""
        found = self._options.client_settings()
        if (region := self.region()) is not None:
            found["sasl.oauthbearer.config"] = config_text(region)
        if (login := self._secret.login()) is not None:
            found |= {"sasl.username": login.username, "sasl.password": login.password}
        return found

    def is_changed(self) -> bool:
        """To be asked once brokers have refused the settings: whether the next ones are others. Errors as of
        `login_of`."""
        return self._secret.is_changed()

    def region(self) -> str | None:
        """Of the brokers; None: the login needs none. Raises ConfigError."""
        if self._options.security.mechanism != MSK_IAM:
            return None
        environ = self._environ()
        region = (
            self._options.security.region
            or self._options.region_of_brokers
            or environ.get("AWS_REGION")
            or environ.get("AWS_DEFAULT_REGION")
        )
        if not region:
            raise ConfigError(
                [f"kafka.security: {MSK_IAM} needs the region of the brokers; add `region`, or set AWS_REGION"]
            )
        return region
