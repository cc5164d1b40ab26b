"""A certificate authority of its own, and certificates that it signs."""

import datetime as dt
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import NameOID

VALID_DAYS = 30


@dataclass(frozen=True, slots=True)
class Issued:
    """As PEM."""

    certificate: bytes
    key: bytes


class Authority:
    """A new one, which is valid for VALID_DAYS, as are its certificates. `certificate`: its own, as PEM."""

    def __init__(self, name: str) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        own = _certificate(self._name, self._key.public_key(), self._name)
        own = own.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        self.certificate = own.sign(self._key, SHA256()).public_bytes(Encoding.PEM)

    def issue(self, name: str, hosts: Sequence[str] = (), password: str | None = None) -> Issued:
        """`hosts`: names and IP addresses of a server. `password`: for the key, which is not encrypted without one."""
        key = ec.generate_private_key(ec.SECP256R1())
        made = _certificate(_name(name), key.public_key(), self._name)
        if hosts:
            served = x509.SubjectAlternativeName([_host(host) for host in hosts])
            made = made.add_extension(served, critical=False)
        kept: KeySerializationEncryption = NoEncryption()
        if password is not None:
            kept = BestAvailableEncryption(password.encode())
        return Issued(
            made.sign(self._key, SHA256()).public_bytes(Encoding.PEM),
            key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, kept),
        )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _host(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


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
