//! Response headers of pages.

use crate::http::files;
use poem::{
    Request, Response,
    http::{HeaderName, HeaderValue, StatusCode, header},
};

/// A page loads from and calls only this service, embeds no frames, and cannot be framed.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'";

/// Browser features; all are disabled.
const PERMISSIONS: &str = "accelerometer=(), camera=(), display-capture=(), fullscreen=(), geolocation=(), gyroscope=(), \
                           magnetometer=(), microphone=(), midi=(), payment=(), publickey-credentials-get=(), \
                           screen-wake-lock=(), usb=(), xr-spatial-tracking=()";

/// Headers with fixed values. Wallets open their own windows, which must still reach the page:
/// `same-origin-allow-popups`.
const FIXED: [(HeaderName, HeaderValue); 6] = [
    (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
    (
        HeaderName::from_static("permissions-policy"),
        HeaderValue::from_static(PERMISSIONS),
    ),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        HeaderValue::from_static("same-origin-allow-popups"),
    ),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        HeaderValue::from_static("same-origin"),
    ),
    (
        HeaderName::from_static("x-robots-tag"),
        HeaderValue::from_static("noindex, nofollow"),
    ),
    (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
];

/// A page response that varies by language.
pub(super) fn page(request: &Request, status: StatusCode, text: String) -> Response {
    let mut response = files::once(request, "text/html; charset=utf-8", text.into());
    response.set_status(status);
    let headers = response.headers_mut();
    headers.insert(
        header::VARY,
        HeaderValue::from_static("Accept-Encoding, Accept-Language"),
    );
    for (name, value) in FIXED {
        headers.insert(name, value);
    }
    response
}

/// A page response with `Retry-After` in seconds.
pub(super) fn later(request: &Request, status: StatusCode, seconds: u64, text: String) -> Response {
    let mut response = page(request, status, text);
    response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
    response
}
