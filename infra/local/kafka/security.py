"""SASL_SSL with SCRAM-SHA-512: users, a certificate authority, and the brokers' certificate."""

import datetime as dt
import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

MECHANISM = "SCRAM-SHA-512"
VALID_DAYS = 30
_PLAIN = re.compile(r"[A-Za-z0-9_.-]+")
_HOST = "127.0.0.1"
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"


@dataclass(frozen=True, slots=True)
class Security:
    """What clients of a cluster need. Made by `Security.make`."""

    users: Mapping[str, str]
    """Passwords, by name."""
    ca_file: Path
    """The certificate authority, as PEM."""
    server_file: Path
    """The brokers' key and their certificate, as PEM."""

    @classmethod
    def make(cls, folder: Path, users: Mapping[str, str]) -> "Security":
        """Writes a new authority and a certificate for 127.0.0.1 into the folder, which is made. They are valid for
        VALID_DAYS. `users`: at least one, with passwords. Raises ValueError for a character that Kafka's tool would
        take for its own."""
        if odd := [name for name, password in users.items() if not _PLAIN.fullmatch(name + password)]:
            raise ValueError(
                f"{', '.join(odd)}: expected letters, digits, _, . and - in names and passwords, found others"
            )
        folder.mkdir(parents=True, exist_ok=True)
        made = cls(dict(users), folder / "ca.pem", folder / "server.pem")
        authority, server = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
        issuer = _name("Blizzard's local Kafka")
        ca = _certificate(issuer, authority.public_key(), issuer)
        ca = ca.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        served = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(_HOST)), x509.DNSName("localhost")])
        certificate = _certificate(_name(_HOST), server.public_key(), issuer).add_extension(served, critical=False)
        made.ca_file.write_bytes(ca.sign(authority, SHA256()).public_bytes(Encoding.PEM))
        key = server.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        made.server_file.write_bytes(key + certificate.sign(authority, SHA256()).public_bytes(Encoding.PEM))
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
            for word in ("--add-scram", f"{MECHANISM}=[name={name},password={password}]")
        ]

    def listener_properties(self, listener: str) -> dict[str, str]:
        """A broker's, for the listener of this name, in lower case."""
        prefix = f"listener.name.{listener}"
        return {
            "sasl.enabled.mechanisms": MECHANISM,
            f"{prefix}.{MECHANISM.lower()}.sasl.jaas.config": _SCRAM,
            f"{prefix}.ssl.keystore.type": "PEM",
            f"{prefix}.ssl.keystore.location": str(self.server_file),
        }


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _certificate(subject: x509.Name, key: ec.EllipticCurvePublicKey, issuer: x509.Name) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return x509.CertificateBuilder(
        issuer_name=issuer,
        subject_name=subject,
        public_key=key,
        serial_number=x509.random_serial_number(),
        not_valid_before=now - dt.timedelta(days=1),
        not_valid_after=now + dt.timedelta(days=VALID_DAYS),
    )
