"""TLS and logins of a cluster: users, a certificate authority, the brokers' certificates and a client's."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from infra.local.kafka.authority import Authority, Issued

MECHANISM = "SCRAM-SHA-512"
"""Of the brokers' own listener, which has SASL_SSL."""
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", MECHANISM)
"""Of each further listener with logins."""
KEY_PASSWORD = "of-the-clients-key"
ELSEWHERE = "elsewhere.example"
_PLAIN = re.compile(r"[A-Za-z0-9_.-]+")
_HOST = "127.0.0.1"
_MODULES = "org.apache.kafka.common.security"
_SCRAM = f"{_MODULES}.scram.ScramLoginModule required;"


@dataclass(frozen=True, slots=True)
class Listener:
    """A further one of each broker, beside its own. `name` is in capitals; `protocol` as Kafka calls it, with all of
    MECHANISMS if it has logins. `wants_certificate`: of clients. `is_elsewhere`: its certificate is for ELSEWHERE."""

    name: str
    protocol: str
    wants_certificate: bool = False
    is_elsewhere: bool = False


@dataclass(frozen=True, slots=True)
class Security:
    """What clients of a cluster need. Made by `Security.make`."""

    users: Mapping[str, str]
    """Passwords, by name."""
    ca_file: Path
    """The certificate authority, as PEM."""
    server_file: Path
    """The brokers' key and their certificate, as PEM."""
    elsewhere_file: Path
    """The same for another host."""
    client_file: Path
    """A client's certificate, as PEM."""
    client_key_file: Path
    """Its key, with KEY_PASSWORD."""

    @classmethod
    def make(cls, folder: Path, users: Mapping[str, str]) -> "Security":
        """Writes a new authority, certificates for 127.0.0.1 and ELSEWHERE and one for clients into the folder, which
        is made. `users`: at least one, with passwords. Raises ValueError for a character that Kafka's tool would take
        for its own."""
        if odd := [name for name, password in users.items() if not _PLAIN.fullmatch(name + password)]:
            raise ValueError(
                f"{', '.join(odd)}: expected letters, digits, _, . and - in names and passwords, found others"
            )
        folder.mkdir(parents=True, exist_ok=True)
        files = (folder / f"{name}.pem" for name in ("ca", "server", "elsewhere", "client", "client-key"))
        made = cls(dict(users), *files)
        authority = Authority("Blizzard's local Kafka")
        made.ca_file.write_bytes(authority.certificate)
        made.server_file.write_bytes(_together(authority.issue(_HOST, [_HOST, "localhost"])))
        made.elsewhere_file.write_bytes(_together(authority.issue(ELSEWHERE, [ELSEWHERE])))
        client = authority.issue("a client", password=KEY_PASSWORD)
        made.client_file.write_bytes(client.certificate)
        made.client_key_file.write_bytes(client.key)
        return made

    def client_settings(self, username: str | None = None, password: str | None = None) -> dict[str, str]:
        """librdkafka's. None: the first user, and the password that this user has."""
        name = next(iter(self.users)) if username is None else username
        return {
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.ca_file),
            "sasl.mechanism": MECHANISM,
            "sasl.username": name,
            "sasl.password": self.users[name] if password is None else password,
        }

    def format_options(self) -> list[str]:
        """The tool's that formats a broker's folder."""
        return [
            word
            for name, password in self.users.items()
            for mechanism in MECHANISMS
            if mechanism.startswith("SCRAM")
            for word in ("--add-scram", f"{mechanism}=[name={name},password={password}]")
        ]

    def listener_properties(self, listener: str) -> dict[str, str]:
        """A broker's, for its own listener, of this name in lower case."""
        prefix = f"listener.name.{listener}"
        return {
            "sasl.enabled.mechanisms": MECHANISM,
            f"{prefix}.{MECHANISM.lower()}.sasl.jaas.config": _SCRAM,
            **_keystore(prefix, self.server_file),
        }

    def further_properties(self, listener: Listener) -> dict[str, str]:
        """A broker's, for a further listener."""
        prefix = f"listener.name.{listener.name.lower()}"
        found: dict[str, str] = {}
        if listener.protocol.endswith("SSL"):
            found |= _keystore(prefix, self.elsewhere_file if listener.is_elsewhere else self.server_file)
        if listener.wants_certificate:
            found |= {
                f"{prefix}.ssl.client.auth": "required",
                f"{prefix}.ssl.truststore.type": "PEM",
                f"{prefix}.ssl.truststore.location": str(self.ca_file),
            }
        if listener.protocol.startswith("SASL"):
            known = " ".join(f'user_{name}="{password}"' for name, password in self.users.items())
            found |= {f"{prefix}.{mechanism.lower()}.sasl.jaas.config": _SCRAM for mechanism in MECHANISMS} | {
                f"{prefix}.plain.sasl.jaas.config": f"{_MODULES}.plain.PlainLoginModule required {known};",
                f"{prefix}.sasl.enabled.mechanisms": ",".join(MECHANISMS),
            }
        return found


def _together(issued: Issued) -> bytes:
    return issued.key + issued.certificate


def _keystore(prefix: str, file: Path) -> dict[str, str]:
    return {f"{prefix}.ssl.keystore.type": "PEM", f"{prefix}.ssl.keystore.location": str(file)}
