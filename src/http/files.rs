//! Static files with browser caching: their URL changes with their content, each encoding is compressed once, and
//! clients with a current copy get 304.

use crate::http::error;
use brotli::enc::BrotliEncoderParams;
use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use poem::{
    Request, Response,
    error::NotFoundError,
    http::{HeaderValue, header},
};
use sha2::{Digest, Sha256};
use std::{
    io::Write,
    sync::{Arc, OnceLock},
};
use tokio::{
    sync::OnceCell,
    task::{JoinError, spawn_blocking},
};

/// Number of digits of a content hash.
const EDITION_LENGTH: usize = 16;

/// Brotli levels: [`QUALITY`] for stored files, [`QUALITY_LARGE`] for files larger than [`LARGE`] bytes. The lower
/// level is ten times as fast, and its result is a tenth larger.
const QUALITY: i32 = 11;
const QUALITY_LARGE: i32 = 9;
const LARGE: usize = 256 * 1024;

/// Brotli level for a body created for one call.
const QUALITY_ONCE: i32 = 5;

/// Supported encodings, best first.
const CODINGS: [ContentCoding; 2] = [ContentCoding::Brotli, ContentCoding::Gzip];

/// Content encoding of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ContentCoding {
    Brotli,
    Gzip,
    Identity,
}

impl ContentCoding {
    fn name(self) -> &'static str {
        match self {
            Self::Brotli => "br",
            Self::Gzip => "gzip",
            Self::Identity => "identity",
        }
    }
}

/// The best encoding that a client accepts; `None` if it accepts none, not even the plain body.
fn coding(request: &Request) -> Option<ContentCoding> {
    let sent = request.headers().get_all(header::ACCEPT_ENCODING).iter();
    let sent = sent
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','));
    let named: Vec<(String, bool)> = sent
        .map(|entry| {
            let mut parts = entry.split(';').map(str::trim);
            let name = parts.next().unwrap_or_default().to_ascii_lowercase();
            let is_refused = parts.any(|part| {
                let weight = part.strip_prefix("q=").or_else(|| part.strip_prefix("Q="));
                weight.is_some_and(|weight| weight.parse() == Ok(0.0_f32))
            });
            (name, !is_refused)
        })
        .collect();
    let said = |wanted: &str| named.iter().find(|(name, _)| name == wanted).map(|(_, takes)| *takes);
    let takes = |coding: &ContentCoding| said(coding.name()).or_else(|| said("*"));
    let compressed = CODINGS.into_iter().find(|coding| takes(coding) == Some(true));
    compressed.or_else(|| {
        takes(&ContentCoding::Identity)
            .unwrap_or(true)
            .then_some(ContentCoding::Identity)
    })
}

/// Content hash.
pub(super) fn edition<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part);
    }
    let mut edition = hex::encode(hash.finalize());
    edition.truncate(EDITION_LENGTH);
    edition
}

/// A file, and its compressed forms once they were requested.
#[derive(Debug)]
pub(super) struct CompressedFile {
    kind: &'static str,
    bytes: Bytes,
    edition: OnceLock<String>,
    brotli: OnceCell<Bytes>,
    gzip: OnceCell<Bytes>,
}

impl CompressedFile {
    /// A file of this media type.
    pub(super) fn new(kind: &'static str, bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        Self {
            kind,
            edition: OnceLock::new(),
            bytes,
            brotli: OnceCell::new(),
            gzip: OnceCell::new(),
        }
    }

    /// Content hash of the file.
    pub(super) fn edition(&self) -> &str {
        self.edition.get_or_init(|| edition([&*self.bytes]))
    }

    /// The file in an encoding that the client accepts, or 304. Errors: the client accepts no encoding of it.
    pub(super) async fn answer(&self, request: &Request) -> Result<Response, error::Problem> {
        // Images are already compressed.
        let coding = if self.kind.starts_with("image/") {
            ContentCoding::Identity
        } else {
            coding(request).ok_or_else(error::no_coding)?
        };
        let tag = format!("\"{}-{}\"", self.edition(), coding.name());
        let response = Response::builder()
            .header(header::VARY, "Accept-Encoding")
            .header(header::ETAG, &tag);
        if is_known(request, &tag) {
            return Ok(response.status(error::unchanged()).finish());
        }
        let response = response.content_type(self.kind);
        if coding == ContentCoding::Identity {
            return Ok(response.body(self.bytes.clone()));
        }
        let response = response.header(header::CONTENT_ENCODING, coding.name());
        let body = self.packed(coding).await.map_err(|_| error::Problem::internal())?;
        Ok(response.body(body))
    }

    /// The file in one encoding. Compressing a large file takes half a second and happens once. If several callers need
    /// the file at the same time, one caller compresses it, and the others wait without blocking a thread.
    async fn packed(&self, coding: ContentCoding) -> Result<Bytes, JoinError> {
        let form = match coding {
            ContentCoding::Brotli => &self.brotli,
            ContentCoding::Gzip => &self.gzip,
            ContentCoding::Identity => return Ok(self.bytes.clone()),
        };
        let quality = if self.bytes.len() > LARGE {
            QUALITY_LARGE
        } else {
            QUALITY
        };
        let pack = || {
            let bytes = self.bytes.clone();
            spawn_blocking(move || compressed(&bytes, coding, quality, Compression::best()))
        };
        form.get_or_try_init(pack).await.cloned()
    }
}

/// Files that link to each other by relative URLs, so all of them share one content hash.
#[derive(Debug)]
pub(super) struct Folder {
    edition: String,
    files: Vec<(&'static str, Arc<CompressedFile>)>,
}

impl Folder {
    /// Files by name, with their media types.
    pub(super) fn new<T: Into<Bytes>>(files: impl IntoIterator<Item = (&'static str, &'static str, T)>) -> Self {
        let files: Vec<_> = files
            .into_iter()
            .map(|(name, kind, bytes)| (name, Arc::new(CompressedFile::new(kind, bytes))))
            .collect();
        let parts = files.iter().flat_map(|(name, file)| [name.as_bytes(), &*file.bytes]);
        Self {
            edition: edition(parts),
            files,
        }
    }

    /// Content hash of these files.
    pub(super) fn edition(&self) -> &str {
        &self.edition
    }

    /// A file of this version, cached permanently. Errors: 404 if there is no such file, or if an outdated page
    /// requests another version.
    pub(super) async fn answer(&self, request: &Request, edition: &str, name: &str) -> poem::Result<Response> {
        let file = self.files.iter().find(|(known, _)| *known == name);
        let Some((_, file)) = file.filter(|_| edition == self.edition) else {
            return Err(NotFoundError.into());
        };
        let mut response = file.answer(request).await?;
        keep(&mut response);
        Ok(response)
    }
}

/// Whether the client already has the content of this tag.
fn is_known(request: &Request, tag: &str) -> bool {
    let sent = request.headers().get_all(header::IF_NONE_MATCH).iter();
    let mut tags = sent
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim);
    tags.any(|known| known == "*" || known.strip_prefix("W/").unwrap_or(known) == tag)
}

/// A body created for one call, compressed if the client accepts it.
pub(super) fn once(request: &Request, kind: &str, text: Bytes) -> Response {
    let response = Response::builder()
        .content_type(kind)
        .header(header::VARY, "Accept-Encoding");
    match coding(request).unwrap_or(ContentCoding::Identity) {
        ContentCoding::Identity => response.body(text),
        coding => response
            .header(header::CONTENT_ENCODING, coding.name())
            .body(compressed(&text, coding, QUALITY_ONCE, Compression::fast())),
    }
}

fn compressed(text: &[u8], coding: ContentCoding, quality: i32, level: Compression) -> Bytes {
    // Writing to memory cannot fail.
    match coding {
        ContentCoding::Gzip => {
            let mut encoder = GzEncoder::new(Vec::new(), level);
            let _ = encoder.write_all(text);
            encoder.finish().unwrap_or_default().into()
        }
        ContentCoding::Brotli => {
            let parameters = BrotliEncoderParams {
                quality,
                size_hint: text.len(),
                ..BrotliEncoderParams::default()
            };
            let mut out = Vec::new();
            let _ = brotli::BrotliCompress(&mut &*text, &mut out, &parameters);
            out.into()
        }
        ContentCoding::Identity => Bytes::copy_from_slice(text),
    }
}

/// Lets browsers cache a file whose URL contains its content hash.
pub(super) fn keep(response: &mut Response) {
    cached(response, "public, max-age=31536000, immutable");
}

/// Makes browsers revalidate each time.
pub(super) fn ask_again(response: &mut Response) {
    cached(response, "no-cache");
}

/// Forbids caching: the URL of the response belongs to another version of the file.
pub(super) fn forget(response: &mut Response) {
    cached(response, "no-store");
}

fn cached(response: &mut Response, how: &'static str) {
    let how = HeaderValue::from_static(how);
    response.headers_mut().insert(header::CACHE_CONTROL, how);
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::future::join_all;
    use std::io::Read;

    fn asked(accepted: &str) -> Option<ContentCoding> {
        coding(&Request::builder().header(header::ACCEPT_ENCODING, accepted).finish())
    }

    #[test]
    fn a_client_gets_the_best_encoding_that_it_accepts() {
        for (accepted, best) in [
            ("", Some(ContentCoding::Identity)),
            ("gzip, deflate, br, zstd", Some(ContentCoding::Brotli)),
            ("BR;q=0.1", Some(ContentCoding::Brotli)),
            ("br;q=0, gzip", Some(ContentCoding::Gzip)),
            ("br;q=0.000, *", Some(ContentCoding::Gzip)),
            ("*", Some(ContentCoding::Brotli)),
            ("zstd", Some(ContentCoding::Identity)),
            ("zstd, *;q=0", None),
            ("identity;q=0", None),
            ("identity;q=0, gzip", Some(ContentCoding::Gzip)),
            ("*;q=0, identity", Some(ContentCoding::Identity)),
            ("br;q=x", Some(ContentCoding::Brotli)),
        ] {
            assert_eq!(asked(accepted), best, "{accepted}");
        }
        assert_eq!(coding(&Request::default()), Some(ContentCoding::Identity));
    }

    #[tokio::test]
    async fn files_are_compressed_once_and_without_loss() {
        let text = "the same words, the same words".repeat(50);
        let file = CompressedFile::new("text/plain", text.clone());
        let mut plain = Vec::new();
        brotli::BrotliDecompress(&mut &*file.packed(ContentCoding::Brotli).await.unwrap(), &mut plain).unwrap();
        assert_eq!(plain, text.as_bytes());
        let mut plain = Vec::new();
        let crowd = join_all([ContentCoding::Gzip; 9].map(|coding| file.packed(coding))).await;
        let crowd: Vec<Bytes> = crowd.into_iter().map(Result::unwrap).collect();
        let packed = &crowd[0];
        assert!(crowd.iter().all(|other| other.as_ptr() == packed.as_ptr()));
        flate2::read::GzDecoder::new(&**packed).read_to_end(&mut plain).unwrap();
        assert_eq!(plain, text.as_bytes());
    }

    #[test]
    fn a_client_that_has_a_file_is_recognised_by_its_etag() {
        let has = |tags: &str| {
            let request = Request::builder().header(header::IF_NONE_MATCH, tags).finish();
            is_known(&request, "\"1-br\"")
        };
        assert!(has("\"1-br\"") && has("W/\"1-br\"") && has("\"0-br\", \"1-br\"") && has("*"));
        assert!(!has("\"1-gzip\"") && !has("1-br"));
    }
}
