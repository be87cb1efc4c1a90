import hashlib
import hmac


def is_genuine(secret: str, body: bytes, header: str, following: str = "") -> bool:
    """body: the raw bytes; header: x-service-signature; following: x-service-signature-next, if present."""
    if not secret:
        return False  # Anyone can sign with an empty secret.
    expected = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    given = f"{header} {following}".split()
    return any(hmac.compare_digest(signature.encode(), expected.encode()) for signature in given)
