//! Headers that pages carry, and their bodies as browsers take them.

use brotli::enc::BrotliEncoderParams;
use bytes::Bytes;
use poem::{
    Request, Response,
    http::{HeaderName, HeaderValue, StatusCode, header},
};

/// A page loads and calls this service alone, and nothing stands inside of it or around it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'";

/// What a page may ask the browser for.
const PERMISSIONS: &str = "accelerometer=(), camera=(), display-capture=(), fullscreen=(), geolocation=(), gyroscope=(), \
                           magnetometer=(), microphone=(), midi=(), payment=(), publickey-credentials-get=(), \
                           screen-wake-lock=(), usb=(), xr-spatial-tracking=()";

/// Wallets open windows of their own, which still have to reach the page.
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

/// How hard documents are compressed, each of them anew.
pub(super) const QUALITY: i32 = 5;

/// Whether a client takes what is compressed with Brotli.
fn takes_brotli(request: &Request) -> bool {
    let accepted = request.headers().get_all(header::ACCEPT_ENCODING).iter();
    let accepted = accepted
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','));
    let mut ways = accepted.map(|way| way.split(';').map(str::trim));
    ways.any(|mut way| way.next() == Some("br") && way.all(|quality| quality != "q=0"))
}

/// A body, compressed for those who take it.
pub(super) fn packed(request: &Request, kind: &str, text: Bytes, pack: impl FnOnce() -> Bytes) -> Response {
    let response = Response::builder()
        .content_type(kind)
        .header(header::VARY, "Accept-Encoding");
    match takes_brotli(request) {
        true => response.header(header::CONTENT_ENCODING, "br").body(pack()),
        false => response.body(text),
    }
}

/// Lets browsers keep what has an address of its own edition.
pub(super) fn keep(response: &mut Response) {
    let forever = HeaderValue::from_static("public, max-age=31536000, immutable");
    response.headers_mut().insert(header::CACHE_CONTROL, forever);
}

/// Lets nobody keep what stands under an address that is not its own.
pub(super) fn forget(response: &mut Response) {
    let never = HeaderValue::from_static("no-store");
    response.headers_mut().insert(header::CACHE_CONTROL, never);
}

/// A page, in the language that its reader asked for.
pub(super) fn page(request: &Request, status: StatusCode, text: String) -> Response {
    let text = Bytes::from(text);
    let mut response = packed(request, "text/html; charset=utf-8", text.clone(), || {
        compressed(&text, QUALITY)
    });
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

/// A page for whoever came at a bad moment: after so many seconds it may be asked for again.
pub(super) fn later(request: &Request, status: StatusCode, seconds: u64, text: String) -> Response {
    let mut response = page(request, status, text);
    response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
    response
}

/// Compresses a text; `quality` from 0 to 11.
pub(super) fn compressed(text: &[u8], quality: i32) -> Bytes {
    let parameters = BrotliEncoderParams {
        quality,
        size_hint: text.len(),
        ..BrotliEncoderParams::default()
    };
    let mut compressed = Vec::new();
    // Writing to memory cannot fail.
    let _ = brotli::BrotliCompress(&mut &*text, &mut compressed, &parameters);
    compressed.into()
}
