//! Names of the service, and the branding of the hosted payment page.

use crate::domain::{
    colour::{Brand, Colour},
    secure_payment::redirect::is_plain,
};
use anyhow::{Context, bail};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Maximum length of a brand name, in characters.
const NAME_LENGTH_MAX: usize = 60;

/// Maximum size of a logo file, in bytes.
const LOGO_BYTES_MAX: usize = 200_000;

/// A logo for the payment page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogoImage {
    /// Its media type.
    pub kind: &'static str,
    /// The file.
    pub bytes: Vec<u8>,
}

impl LogoImage {
    /// Reads a file and detects its type from the content. Errors: the file is too large, or not PNG, JPEG or WebP.
    fn read(path: &Path) -> anyhow::Result<Self> {
        let bytes = fs::read(path)?;
        if bytes.len() > LOGO_BYTES_MAX {
            bail!("the file has {} bytes; the maximum is {LOGO_BYTES_MAX}", bytes.len());
        }
        let kind = match bytes.as_slice() {
            [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => "image/png",
            [0xff, 0xd8, 0xff, ..] => "image/jpeg",
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => "image/webp",
            _ => bail!("the file is not a PNG, JPEG or WebP image"),
        };
        Ok(Self { kind, bytes })
    }
}

/// A language of the payment page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    /// English.
    #[default]
    En,
    /// German.
    De,
    /// Spanish.
    Es,
    /// French.
    Fr,
    /// Arabic.
    Ar,
}

impl Language {
    /// Every language, in display order.
    pub const ALL: [Self; 5] = [Self::En, Self::De, Self::Es, Self::Fr, Self::Ar];

    /// Its code.
    pub const fn code(self) -> &'static str {
        match self {
            Self::En => "en",
            Self::De => "de",
            Self::Es => "es",
            Self::Fr => "fr",
            Self::Ar => "ar",
        }
    }
}

/// Names in events, and branding of the payment page.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BrandSettings {
    /// Value of `paymentProcessor` in events of crypto payments.
    pub processor_crypto: String,
    /// Value of `paymentProcessor` in events of fiat payments.
    pub processor_fiat: String,
    /// Payee name on the payment page, at most 60 characters. If absent, the page shows the address of the receiver.
    pub name: Option<String>,
    /// Logo file shown above `brand.name`: PNG, JPEG or WebP of at most 200,000 bytes. The service serves the file.
    pub logo: Option<PathBuf>,
    /// Language of the payment page for browsers that request none of the languages `en`, `de`, `es`, `fr` and `ar`.
    pub language: Language,
    /// Background colour of the payment page. Each of the five colours is written `#rrggbb`. If at least one of them is
    /// set, the others default to the published colours; if none is set, the page uses its own colours. The page
    /// adjusts text colours so that text stays readable.
    pub page_background: Option<String>,
    /// Background colour behind the text of the payment page.
    pub surface_background: Option<String>,
    /// Colour of the buttons of the payment page.
    pub primary_action: Option<String>,
    /// Text colour.
    pub primary_text: Option<String>,
    /// Colour of secondary text.
    pub secondary_text: Option<String>,
    /// URL of the terms, shown in the page footer.
    pub terms_url: Option<String>,
    /// URL of the privacy policy, shown in the page footer.
    pub privacy_url: Option<String>,
}

impl Default for BrandSettings {
    fn default() -> Self {
        Self {
            processor_crypto: "service-network".to_owned(),
            processor_fiat: "service-tech".to_owned(),
            name: None,
            logo: None,
            language: Language::default(),
            page_background: None,
            surface_background: None,
            primary_action: None,
            primary_text: None,
            secondary_text: None,
            terms_url: None,
            privacy_url: None,
        }
    }
}

impl BrandSettings {
    /// Name and published colour of each colour setting.
    fn colours(&self) -> [(&'static str, Option<&String>, &'static str); 5] {
        [
            ("page_background", self.page_background.as_ref(), "#f3f4f6"),
            ("surface_background", self.surface_background.as_ref(), "#ffffff"),
            ("primary_action", self.primary_action.as_ref(), "#00d395"),
            ("primary_text", self.primary_text.as_ref(), "#475569"),
            ("secondary_text", self.secondary_text.as_ref(), "#94a3b8"),
        ]
    }

    /// The configured colours; `None` for the page's own colours. Errors: a value that is not a colour.
    pub fn brand(&self) -> anyhow::Result<Option<Brand>> {
        let colours = self.colours();
        if colours.iter().all(|(_, chosen, _)| chosen.is_none()) {
            return Ok(None);
        }
        let colours = colours.map(|(name, chosen, published)| {
            Colour::parse(chosen.map_or(published, String::as_str))
                .with_context(|| format!("brand.{name}: must be a colour such as {published}"))
        });
        let [ground, card, action, text, quiet] = colours;
        Ok(Some(Brand {
            ground: ground?,
            card: card?,
            action: action?,
            text: text?,
            quiet: quiet?,
        }))
    }

    /// The logo. Errors: a file that cannot be read, or is not a supported image.
    pub fn picture(&self) -> anyhow::Result<Option<LogoImage>> {
        let read = |path: &PathBuf| LogoImage::read(path).with_context(|| format!("brand.logo: {}", path.display()));
        self.logo.as_ref().map(read).transpose()
    }

    /// Rejects values that the page cannot show.
    pub(super) fn validate(&self) -> anyhow::Result<()> {
        let processors = [
            ("processor_crypto", &self.processor_crypto),
            ("processor_fiat", &self.processor_fiat),
        ];
        for (name, processor) in processors {
            if processor.trim().is_empty() {
                bail!("brand.{name}: must be a name, for example service-network");
            }
        }
        self.brand()?;
        self.picture()?;
        if let Some(name) = &self.name
            && (name.trim().is_empty() || name.chars().count() > NAME_LENGTH_MAX || !name.chars().all(is_plain))
        {
            bail!("brand.name: must be 1 to {NAME_LENGTH_MAX} characters without control or direction characters");
        }
        for (name, url) in [("terms_url", &self.terms_url), ("privacy_url", &self.privacy_url)] {
            let fits = |url: &String| url::Url::parse(url).is_ok_and(|url| matches!(url.scheme(), "http" | "https"));
            if url.as_ref().is_some_and(|url| !fits(url)) {
                bail!("brand.{name}: must be an http or https URL");
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(change: impl FnOnce(&mut BrandSettings)) -> Option<String> {
        let mut brand = BrandSettings::default();
        change(&mut brand);
        brand.validate().err().map(|error| error.to_string())
    }

    #[test]
    fn one_colour_is_completed_by_the_default_colours() {
        assert!(BrandSettings::default().brand().unwrap().is_none());
        let brand = BrandSettings {
            primary_action: Some("#102030".to_owned()),
            ..BrandSettings::default()
        };
        let brand = brand.brand().unwrap().unwrap();
        assert_eq!(
            (brand.action.to_string(), brand.card.to_string()),
            ("#102030".to_owned(), "#ffffff".to_owned())
        );
    }

    #[test]
    fn values_that_no_page_can_show_are_rejected() {
        assert_eq!(refusal(|_| ()), None);
        let name = |name: &str| Some(name.to_owned());
        for (change, setting) in [
            (refusal(|brand| brand.name = name("")), "brand.name"),
            (refusal(|brand| brand.name = name(&"a".repeat(61))), "brand.name"),
            (refusal(|brand| brand.name = name("a\u{202e}b")), "brand.name"),
            (refusal(|brand| brand.primary_text = name("red")), "brand.primary_text"),
            (
                refusal(|brand| brand.terms_url = name("javascript:alert(1)")),
                "brand.terms_url",
            ),
            (
                refusal(|brand| brand.processor_fiat = String::new()),
                "brand.processor_fiat",
            ),
        ] {
            assert!(
                change.as_ref().is_some_and(|sentence| sentence.starts_with(setting)),
                "{change:?}"
            );
        }
    }

    #[test]
    fn a_logo_must_be_small_and_is_recognised_by_its_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let read = |bytes: &[u8]| {
            let path = folder.path().join("logo.png");
            fs::write(&path, bytes).unwrap();
            let brand = BrandSettings {
                logo: Some(path),
                ..BrandSettings::default()
            };
            brand.validate().and_then(|()| brand.picture())
        };
        let png = b"\x89PNG\r\n\x1a\n....";
        assert_eq!(read(png).unwrap().unwrap().kind, "image/png");
        assert_eq!(read(b"\xff\xd8\xff....").unwrap().unwrap().kind, "image/jpeg");
        assert_eq!(read(b"RIFF....WEBPVP8 ").unwrap().unwrap().kind, "image/webp");
        for refused in [
            b"<svg onload=alert(1)>".as_slice(),
            b"",
            b"GIF89a",
            &[png.as_slice(), &[0; 200_000]].concat(),
        ] {
            let error = read(refused).unwrap_err();
            assert!(format!("{error:#}").starts_with("brand.logo: "), "{error:#}");
        }
        let brand = BrandSettings {
            logo: Some(folder.path().join("missing.png")),
            ..BrandSettings::default()
        };
        assert!(brand.validate().is_err());
    }
}
