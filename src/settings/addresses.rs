//! Checks for URLs in settings that clients see or that the service extends with paths.

use anyhow::{Context, bail};
use url::{Host, Url};

/// Parses the URL in the setting `name`. Errors: it is not http or https, or it has a user name, query or fragment.
/// Such a URL is shown to clients and in the settings, so it must contain no secret. No error message repeats the URL.
pub(super) fn plain(name: &str, text: &str) -> anyhow::Result<Url> {
    let url = Url::parse(text).with_context(|| format!("{name}: must be an absolute URL"))?;
    if !matches!(url.scheme(), "http" | "https") {
        bail!("{name}: must be an http or https URL");
    }
    if !url.username().is_empty() || url.password().is_some() {
        bail!("{name}: must be a URL without a user name and a password");
    }
    if url.query().is_some() || url.fragment().is_some() {
        bail!("{name}: must be a URL without a query and a fragment");
    }
    Ok(url)
}

/// Parses the URL in the setting `name`. Errors: as for [`plain`]; an http URL that does not point to this machine,
/// because others could alter its responses on the way.
pub(super) fn protected(name: &str, text: &str) -> anyhow::Result<Url> {
    let url = plain(name, text)?;
    if url.scheme() != "https" && !is_loopback(&url) {
        bail!("{name}: must be an https URL; http is allowed only on this machine");
    }
    Ok(url)
}

/// Checks the URL of the payment pages in the setting `name`. Errors: as for [`plain`]; a path that this service does
/// not serve; whitespace, control characters or backslashes, which every link would contain.
pub(super) fn of_pages(name: &str, text: &str) -> anyhow::Result<()> {
    let url = plain(name, text)?;
    let is_clean = !text.contains(|letter: char| letter.is_whitespace() || letter.is_control() || letter == '\\');
    if !is_clean || !matches!(url.path().trim_end_matches('/'), "" | "/pay") {
        bail!(
            "{name}: must be a URL with no path or with the path /pay, for example https://pay.example.com; if absent, \
             it is /pay under http.public_url"
        );
    }
    Ok(())
}

/// Checks a base URL of the service in the setting `name`. Errors: as for [`plain`]; a path, because pages and
/// documents link to each other by absolute paths.
pub(super) fn of_host(name: &str, text: &str) -> anyhow::Result<()> {
    if plain(name, text)?.path() != "/" {
        bail!("{name}: must be a URL without a path, for example https://api.example.com");
    }
    Ok(())
}

/// Whether a URL points to this machine.
pub(super) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payment_pages_are_at_the_root_of_a_host_or_under_pay() {
        for (text, is_good) in [
            ("https://pay.example.com", true),
            ("https://pay.example.com/", true),
            ("https://pay.example.com/pay", true),
            ("https://pay.example.com:8443/pay/", true),
            ("https://example.com/shop/pay", false),
            ("https://example.com/payments", false),
            ("https://example.com/Pay", false),
            ("https://example.com//pay", false),
            ("https://pay.example.com/pay ", false),
            ("https://pay.example.com\\pay", false),
            ("https://pay.example.com/?key=hunter2", false),
        ] {
            let refused = of_pages("http.pay_url", text).err().map(|error| format!("{error:#}"));
            assert_eq!(refused.is_none(), is_good, "{text}: {refused:?}");
            assert!(
                refused.is_none_or(|sentence| sentence.starts_with("http.pay_url: must be a URL")),
                "{text}"
            );
        }
    }

    #[test]
    fn only_http_and_https_addresses_are_accepted() {
        let refusal = |read: fn(&str, &str) -> anyhow::Result<Url>, text: &str| {
            let error = read("http.pay_url", text).err()?;
            let sentence = format!("{error:#}");
            assert!(
                sentence.starts_with("http.pay_url: ") && !sentence.contains("hunter2"),
                "{sentence}"
            );
            Some(sentence)
        };
        for (text, is_plain, is_protected) in [
            ("https://pay.example.com", true, true),
            ("https://pay.example.com:8443/pay/", true, true),
            ("http://pay.example.com", true, false),
            ("http://127.0.0.1:8080/pay", true, true),
            ("http://[::1]:8080", true, true),
            ("http://localhost", true, true),
            ("javascript:alert(1)", false, false),
            ("ftp://pay.example.com", false, false),
            ("pay.example.com", false, false),
            ("https://ada:hunter2@pay.example.com", false, false),
            ("https://hunter2@pay.example.com", false, false),
            ("https://pay.example.com/?key=hunter2", false, false),
            ("https://pay.example.com/#hunter2", false, false),
        ] {
            assert_eq!(refusal(plain, text).is_none(), is_plain, "{text}");
            assert_eq!(refusal(protected, text).is_none(), is_protected, "{text}");
        }
    }
}
