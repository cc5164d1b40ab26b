"""Which secret of AWS Secrets Manager a configuration names."""

import re

_NAME = re.compile(r"[A-Za-z0-9/_+=.@-]{1,512}\Z")
_ARN = re.compile(r"arn:[a-z-]+:secretsmanager:[a-z0-9-]+:[0-9]{12}:secret:[A-Za-z0-9/_+=.@-]{1,512}\Z")


def secret_name(text: str) -> str:
    """Raises ValueError."""
    if not _NAME.match(text) and not _ARN.match(text):
        raise ValueError(
            f"found {text!r:.200}, expected the name of a secret of AWS Secrets Manager, or its ARN: "
            "arn:aws:secretsmanager:{region}:{account}:secret:{name}"
        )
    return text
