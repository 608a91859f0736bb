"""What botocore raises, in the words of this package's error tree.

``StoreUnreachable``: nothing answered, the answer broke off, or the server says that it can't just now (5xx,
throttling). ``StoreDenied``: any other no. A message names the bucket, the endpoint, what was attempted and what to
do next. It quotes the server's code and sentence, never a request's headers or parameters.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from otel_prompt_trace.exceptions import StoreDenied, StoreError, StoreUnreachable

if TYPE_CHECKING:
    from botocore.exceptions import ClientError

__all__ = ["check_answer", "code_of", "explained", "is_unsupported"]

_PASSING = frozenset(
    {"RequestTimeout", "RequestTimeoutException", "SlowDown", "Throttling", "ThrottlingException", "TooManyRequests"}
)
_UNSUPPORTED = frozenset({"NotImplemented", "MethodNotAllowed"})
_NO_CREDENTIALS = frozenset(
    {
        "NoCredentialsError",
        "PartialCredentialsError",
        "CredentialRetrievalError",
        "ProfileNotFound",
        "SSOTokenLoadError",
        "TokenRetrievalError",
        "UnauthorizedSSOTokenError",
    }
)

_RENEW = "Renew these temporary credentials"
_REGION = "Name the bucket's region with ?region= in the store's URL"
_KEYS = "Check the access key and secret (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, or the profile) for this endpoint"
_ALLOW = (
    "Allow these credentials s3:GetObject, s3:PutObject, s3:ListBucket and, to erase, s3:ListBucketVersions and "
    "s3:DeleteObjectVersion"
)
_NEXT = {
    "AccessDenied": _ALLOW,
    "AuthorizationHeaderMalformed": _REGION,
    "ExpiredToken": _RENEW,
    "ExpiredTokenException": _RENEW,
    "Forbidden": _ALLOW,
    "IllegalLocationConstraintException": _REGION,
    "InvalidAccessKeyId": _KEYS,
    "InvalidToken": _RENEW,
    "NoSuchBucket": "Create the bucket, or correct its name in the store's URL",
    "PermanentRedirect": _REGION,
    "RequestTimeTooSkewed": "Set this machine's clock",
    "SignatureDoesNotMatch": _KEYS,
}


class NotS3Error(Exception):
    """An answer that can't be S3's; never leaves :func:`explained`."""


class _Unsupported(StoreDenied):
    """The server does not know the operation."""


def code_of(error: ClientError) -> tuple[int, str]:
    """HTTP status and error code of an answer."""
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    return status, error.response.get("Error", {}).get("Code", "")


def is_unsupported(error: StoreError) -> bool:
    """Whether the server does not know the operation, so that asking again is in vain."""
    return isinstance(error, _Unsupported)


def check_answer(answer: Any, field: str) -> Any:
    """Return ``answer`` if it has the field that every S3 gives.

    A server of another kind answers 200 to anything, and botocore reads its page as an empty answer: a put would
    pass for stored, and a full store for empty.
    """
    if field not in answer:
        raise NotS3Error
    return answer


@contextlib.contextmanager
def explained(where: str, action: str) -> Iterator[None]:
    """Turn whatever botocore raises inside into ``StoreUnreachable`` or ``StoreDenied``."""
    from botocore.exceptions import BotoCoreError, ClientError
    from botocore.parsers import ResponseParserError

    what = f"{where}: can't {action}"
    try:
        yield
    except ClientError as error:
        raise _answered(what, action, error) from error
    except BotoCoreError as error:
        raise _failed(what, error) from None  # its text can hold a request's headers
    except (NotS3Error, ResponseParserError) as error:
        raise StoreDenied(f"{what}: the answer is not S3's. Check the endpoint in the store's URL") from error
    except OSError as error:
        raise StoreUnreachable(f"{what}: {type(error).__name__}. Check network and endpoint, then try again") from error


def _answered(what: str, action: str, error: ClientError) -> StoreError:
    status, code = code_of(error)
    said = f"{what}: {status} {code}: {error.response.get('Error', {}).get('Message', '')[:200]}".rstrip(".: ")
    if status == 501 or code in _UNSUPPORTED:
        return _Unsupported(f"{said}. The server lacks this operation: name another store in PROMPT_TRACE_STORE")
    if status >= 500 or status == 429 or code in _PASSING:
        return StoreUnreachable(f"{said}. The server can't just now: try again later")
    following = _NEXT.get(code, "Check the store's URL and the credentials")
    if code == "AccessDenied" and action.startswith("delete "):
        following = f"An object lock or legal hold may keep it: wait for its end. Otherwise: {_ALLOW}"
    return StoreDenied(f"{said}. {following}")


def _failed(what: str, error: Exception) -> StoreError:
    from botocore.exceptions import (
        ChecksumError,
        FlexibleChecksumError,
        HTTPClientError,
        IncompleteReadError,
    )
    from botocore.exceptions import (
        ConnectionError as ConnectionFailed,
    )

    kind = type(error).__name__
    if isinstance(
        error, HTTPClientError | ConnectionFailed | IncompleteReadError | ChecksumError | FlexibleChecksumError
    ):
        return StoreUnreachable(f"{what}: {kind}. Check network and endpoint, then try again")
    if kind in _NO_CREDENTIALS:
        return StoreDenied(
            f"{what}: {kind}. Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or name a profile that works with "
            "?profile= in the store's URL"
        )
    return StoreDenied(f"{what}: {kind}. Check the store's URL and the AWS configuration")
