//! Files that browsers keep: under an address that changes with what they hold, compressed once for each way that a
//! browser takes, and not sent again to whoever has them.

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

/// Digits of an edition.
const EDITION_LENGTH: usize = 16;

/// How hard Brotli compresses what is kept, and what is larger than [`LARGE`] bytes: ten times as fast, a tenth larger.
const QUALITY: i32 = 11;
const QUALITY_LARGE: i32 = 9;
const LARGE: usize = 256 * 1024;

/// How hard it compresses what is made for one call.
const QUALITY_ONCE: i32 = 5;

/// Ways to compress that a client may take, the best first.
const CODINGS: [Coding; 2] = [Coding::Brotli, Coding::Gzip];

/// How a body travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Coding {
    Brotli,
    Gzip,
    Identity,
}

impl Coding {
    fn name(self) -> &'static str {
        match self {
            Self::Brotli => "br",
            Self::Gzip => "gzip",
            Self::Identity => "identity",
        }
    }
}

/// The best way that a client takes; `None` where it takes none that there is, not even the plain body.
fn coding(request: &Request) -> Option<Coding> {
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
    let takes = |coding: &Coding| said(coding.name()).or_else(|| said("*"));
    let compressed = CODINGS.into_iter().find(|coding| takes(coding) == Some(true));
    compressed.or_else(|| takes(&Coding::Identity).unwrap_or(true).then_some(Coding::Identity))
}

/// What tells contents from those of before.
pub(super) fn edition<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part);
    }
    let mut edition = hex::encode(hash.finalize());
    edition.truncate(EDITION_LENGTH);
    edition
}

/// A file, and its compressed forms once somebody asked for them.
#[derive(Debug)]
pub(super) struct File {
    kind: &'static str,
    bytes: Bytes,
    edition: OnceLock<String>,
    brotli: OnceCell<Bytes>,
    gzip: OnceCell<Bytes>,
}

impl File {
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

    /// What tells its content from any other one.
    pub(super) fn edition(&self) -> &str {
        self.edition.get_or_init(|| edition([&*self.bytes]))
    }

    /// The file as a client takes it, or that it is still what the client has. Errors: the client takes no form of it.
    pub(super) async fn answer(&self, request: &Request) -> Result<Response, error::Problem> {
        // Pictures are compressed in their own way.
        let coding = match self.kind.starts_with("image/") {
            true => Coding::Identity,
            false => coding(request).ok_or_else(error::no_coding)?,
        };
        let tag = format!("\"{}-{}\"", self.edition(), coding.name());
        let response = Response::builder()
            .header(header::VARY, "Accept-Encoding")
            .header(header::ETAG, &tag);
        if is_known(request, &tag) {
            return Ok(response.status(error::unchanged()).finish());
        }
        let response = response.content_type(self.kind);
        if coding == Coding::Identity {
            return Ok(response.body(self.bytes.clone()));
        }
        let response = response.header(header::CONTENT_ENCODING, coding.name());
        let body = self.packed(coding).await.map_err(|_| error::Problem::internal())?;
        Ok(response.body(body))
    }

    /// The file in one of its forms. Large files take half a second, once: of a crowd one compresses, and the others wait
    /// without a thread.
    async fn packed(&self, coding: Coding) -> Result<Bytes, JoinError> {
        let form = match coding {
            Coding::Brotli => &self.brotli,
            Coding::Gzip => &self.gzip,
            Coding::Identity => return Ok(self.bytes.clone()),
        };
        let quality = match self.bytes.len() > LARGE {
            true => QUALITY_LARGE,
            false => QUALITY,
        };
        let pack = || {
            let bytes = self.bytes.clone();
            spawn_blocking(move || compressed(&bytes, coding, quality, Compression::best()))
        };
        form.get_or_try_init(pack).await.cloned()
    }
}

/// Files that name each other relative to their own address, so that all of them have the same edition.
#[derive(Debug)]
pub(super) struct Folder {
    edition: String,
    files: Vec<(&'static str, Arc<File>)>,
}

impl Folder {
    /// Files by their names, with their media types.
    pub(super) fn new<T: Into<Bytes>>(files: impl IntoIterator<Item = (&'static str, &'static str, T)>) -> Self {
        let files: Vec<_> = files
            .into_iter()
            .map(|(name, kind, bytes)| (name, Arc::new(File::new(kind, bytes))))
            .collect();
        let parts = files.iter().flat_map(|(name, file)| [name.as_bytes(), &*file.bytes]);
        Self {
            edition: edition(parts),
            files,
        }
    }

    /// What tells these files from those of before.
    pub(super) fn edition(&self) -> &str {
        &self.edition
    }

    /// A file of this edition, to be kept for good. Errors: there is no such file (404), or it is one of another edition, which
    /// a page that is old asks for.
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

/// Whether a client says that it has what this tag stands for.
fn is_known(request: &Request, tag: &str) -> bool {
    let sent = request.headers().get_all(header::IF_NONE_MATCH).iter();
    let mut tags = sent
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim);
    tags.any(|known| known == "*" || known.strip_prefix("W/").unwrap_or(known) == tag)
}

/// A body that is made for one call, compressed for those who take it.
pub(super) fn once(request: &Request, kind: &str, text: Bytes) -> Response {
    let response = Response::builder()
        .content_type(kind)
        .header(header::VARY, "Accept-Encoding");
    match coding(request).unwrap_or(Coding::Identity) {
        Coding::Identity => response.body(text),
        coding => response
            .header(header::CONTENT_ENCODING, coding.name())
            .body(compressed(&text, coding, QUALITY_ONCE, Compression::fast())),
    }
}

fn compressed(text: &[u8], coding: Coding, quality: i32, level: Compression) -> Bytes {
    // Writing to memory cannot fail.
    match coding {
        Coding::Gzip => {
            let mut encoder = GzEncoder::new(Vec::new(), level);
            let _ = encoder.write_all(text);
            encoder.finish().unwrap_or_default().into()
        }
        Coding::Brotli => {
            let parameters = BrotliEncoderParams {
                quality,
                size_hint: text.len(),
                ..BrotliEncoderParams::default()
            };
            let mut out = Vec::new();
            let _ = brotli::BrotliCompress(&mut &*text, &mut out, &parameters);
            out.into()
        }
        Coding::Identity => Bytes::copy_from_slice(text),
    }
}

/// Lets browsers keep what has an address of its own edition.
pub(super) fn keep(response: &mut Response) {
    cached(response, "public, max-age=31536000, immutable");
}

/// Has browsers ask each time whether it changed.
pub(super) fn ask_again(response: &mut Response) {
    cached(response, "no-cache");
}

/// Lets nobody keep what stands under an address that is not its own.
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

    fn asked(accepted: &str) -> Option<Coding> {
        coding(&Request::builder().header(header::ACCEPT_ENCODING, accepted).finish())
    }

    #[test]
    fn a_client_gets_the_best_form_that_it_takes() {
        for (accepted, best) in [
            ("", Some(Coding::Identity)),
            ("gzip, deflate, br, zstd", Some(Coding::Brotli)),
            ("BR;q=0.1", Some(Coding::Brotli)),
            ("br;q=0, gzip", Some(Coding::Gzip)),
            ("br;q=0.000, *", Some(Coding::Gzip)),
            ("*", Some(Coding::Brotli)),
            ("zstd", Some(Coding::Identity)),
            ("zstd, *;q=0", None),
            ("identity;q=0", None),
            ("identity;q=0, gzip", Some(Coding::Gzip)),
            ("*;q=0, identity", Some(Coding::Identity)),
            ("br;q=x", Some(Coding::Brotli)),
        ] {
            assert_eq!(asked(accepted), best, "{accepted}");
        }
        assert_eq!(coding(&Request::default()), Some(Coding::Identity));
    }

    #[tokio::test]
    async fn what_is_compressed_is_what_was_written_and_compressed_once() {
        let text = "so many words, so many words".repeat(50);
        let file = File::new("text/plain", text.clone());
        let mut plain = Vec::new();
        brotli::BrotliDecompress(&mut &*file.packed(Coding::Brotli).await.unwrap(), &mut plain).unwrap();
        assert_eq!(plain, text.as_bytes());
        let mut plain = Vec::new();
        let crowd = join_all([Coding::Gzip; 9].map(|coding| file.packed(coding))).await;
        let crowd: Vec<Bytes> = crowd.into_iter().map(Result::unwrap).collect();
        let packed = &crowd[0];
        assert!(crowd.iter().all(|other| other.as_ptr() == packed.as_ptr()));
        flate2::read::GzDecoder::new(&**packed).read_to_end(&mut plain).unwrap();
        assert_eq!(plain, text.as_bytes());
    }

    #[test]
    fn whoever_has_a_file_is_known_by_its_tag() {
        let has = |tags: &str| {
            let request = Request::builder().header(header::IF_NONE_MATCH, tags).finish();
            is_known(&request, "\"1-br\"")
        };
        assert!(has("\"1-br\"") && has("W/\"1-br\"") && has("\"0-br\", \"1-br\"") && has("*"));
        assert!(!has("\"1-gzip\"") && !has("1-br"));
    }
}
