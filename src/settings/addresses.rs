//! Addresses in settings that others read, or that paths are added to.

use anyhow::{Context, bail};
use url::{Host, Url};

/// The address in the setting `name`. Errors: it is none of http or https, or it has what does not belong there; an address
/// is shown to others and in the settings, so that nothing in it may be secret. No error repeats it.
pub(super) fn plain(name: &str, text: &str) -> anyhow::Result<Url> {
    let url = Url::parse(text).with_context(|| format!("{name}: must be an absolute address"))?;
    if !matches!(url.scheme(), "http" | "https") {
        bail!("{name}: must be an http or https address");
    }
    if !url.username().is_empty() || url.password().is_some() {
        bail!("{name}: must be an address without a user name and a password");
    }
    if url.query().is_some() || url.fragment().is_some() {
        bail!("{name}: must be an address without a query and a fragment");
    }
    Ok(url)
}

/// The same over https; over http on this machine alone, because anybody on the way could change what is read there.
pub(super) fn protected(name: &str, text: &str) -> anyhow::Result<Url> {
    let url = plain(name, text)?;
    if url.scheme() != "https" && !is_loopback(&url) {
        bail!("{name}: must be an https address; http is for this machine alone");
    }
    Ok(url)
}

/// Checks the address of the payment pages in the setting `name`. Errors: like [`plain`]; nothing of this service stands
/// where it leads, or it is written in a way that links would repeat.
pub(super) fn of_pages(name: &str, text: &str) -> anyhow::Result<()> {
    let url = plain(name, text)?;
    let is_clean = !text.contains(|letter: char| letter.is_whitespace() || letter.is_control() || letter == '\\');
    if !is_clean || !matches!(url.path().trim_end_matches('/'), "" | "/pay") {
        bail!(
            "{name}: must be an address of a host alone, or of /pay on it, where the payment pages stand, as \
             https://pay.example.com; absent, it is /pay under http.public_url"
        );
    }
    Ok(())
}

/// Checks an address in the setting `name` under which the service stands. Errors: like [`plain`]; it has a path, and pages
/// and documents name each other by paths of their own.
pub(super) fn of_host(name: &str, text: &str) -> anyhow::Result<()> {
    if plain(name, text)?.path() != "/" {
        bail!("{name}: must be an address of a host without a path, as https://api.example.com");
    }
    Ok(())
}

/// Whether an address leads to this machine.
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
    fn the_payment_pages_stand_on_a_host_or_under_pay_on_it() {
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
                refused.is_none_or(|sentence| sentence.starts_with("http.pay_url: must be an address")),
                "{text}"
            );
        }
    }

    #[test]
    fn an_address_is_http_and_nothing_else() {
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
