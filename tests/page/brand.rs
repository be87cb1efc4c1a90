//! Pages with the colours, name and logo of an operator.

use crate::{
    hostile::{Dice, look, sane},
    scenarios::{Told, amounts, holds},
    stage::Stage,
    support::program,
};
use prs::settings::{BrandSettings, ChainSettings, Settings};
use serde_json::{Value, json};
use std::{
    net::TcpListener,
    path::Path,
    process::{Child, Stdio},
    time::{Duration, Instant},
};

/// Time limit for the program to become ready.
const PATIENCE: Duration = Duration::from_secs(20);

/// Maximum number of requests until the page is usable. Source: interface §4.7.
const CALLS_MAX: u64 = 9;

/// Number of brand names that are tested. Each needs a restart of the program.
const SHOWN: usize = 8;

/// A second instance of the service with its own branding, on the same database and chain.
struct Branded {
    child: Child,
    address: String,
}

impl Drop for Branded {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Branded {
    async fn start(stage: &Stage, folder: &Path, brand: BrandSettings) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let listen = port.expect("a port");
        let mut settings = Settings::development(listen);
        settings.database.url = stage.dev.text("/databaseUrl").to_owned();
        settings.rate_limits.enabled = false;
        settings.brand = brand;
        settings
            .chains
            .insert("sepolia".to_owned(), chain(&stage.dev.ready["chain"]));
        let file = folder.join("branded.toml");
        std::fs::write(&file, toml::to_string(&settings).expect("TOML")).expect("written");
        let log = std::fs::File::create(folder.join("branded.log")).expect("a log");
        let child = program::prs(folder)
            .args(["serve", "--role", "api", "--config"])
            .arg(&file)
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("it starts");
        let branded = Self {
            child,
            address: format!("http://{listen}"),
        };
        let begun = Instant::now();
        let client = reqwest::Client::builder().no_proxy().build().expect("a client");
        loop {
            let answer = client.get(format!("{}/health/ready", branded.address)).send().await;
            if answer.is_ok_and(|answer| answer.status().is_success()) {
                return branded;
            }
            let log = || std::fs::read_to_string(folder.join("branded.log")).unwrap_or_default();
            assert!(begun.elapsed() < PATIENCE, "the service is not ready: {}", log());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

fn chain(local: &Value) -> ChainSettings {
    let text = |pointer: &str| {
        local
            .pointer(pointer)
            .and_then(Value::as_str)
            .expect(pointer)
            .to_owned()
    };
    let contracts = [
        ("ERC20FeeProxy", "erc20FeeProxy"),
        ("EthereumFeeProxy", "ethereumFeeProxy"),
        ("BatchConversionPayments", "batchConversionPayments"),
    ];
    let tokens = ["FAU", "USDC", "USDT"];
    ChainSettings {
        rpc_urls: vec![text("/rpcUrl")],
        wallet_rpc_url: Some(text("/rpcUrl")),
        confirmations: Some(1),
        contracts: contracts
            .map(|(name, own)| (name.to_owned(), text(&format!("/contracts/{own}"))))
            .into(),
        tokens: tokens
            .map(|symbol| (symbol.to_owned(), text(&format!("/tokens/{symbol}"))))
            .into(),
        ..ChainSettings::default()
    }
}

/// Sets of colours: some with little contrast, and the published ones.
const COLOURS: [(&str, [&str; 5]); 4] = [
    ("-published", ["#f3f4f6", "#ffffff", "#00d395", "#475569", "#94a3b8"]),
    ("-yellow", ["#fffbe6", "#fffde7", "#ffe600", "#fff59d", "#fff176"]),
    ("-black", ["#000000", "#000000", "#111111", "#000000", "#222222"]),
    ("-grey", ["#808080", "#777777", "#787878", "#808080", "#7f7f7f"]),
];

fn coloured([ground, card, action, text, quiet]: [&str; 5]) -> BrandSettings {
    let some = |text: &str| Some(text.to_owned());
    BrandSettings {
        name: some("Kestrel & Söhne"),
        page_background: some(ground),
        surface_background: some(card),
        primary_action: some(action),
        primary_text: some(text),
        secondary_text: some(quiet),
        terms_url: some("https://shop.example/terms"),
        privacy_url: some("https://shop.example/privacy"),
        ..BrandSettings::default()
    }
}

/// Draws an image in the browser.
async fn picture(stage: &Stage, kind: &str) -> Vec<u8> {
    let script = format!(
        "const canvas = document.createElement('canvas'); canvas.width = 160; canvas.height = 48; \
         const context = canvas.getContext('2d'); context.fillStyle = '#0a7d5a'; context.fillRect(0, 0, 48, 48); \
         context.fillStyle = '#c2185b'; context.fillRect(56, 12, 100, 24); return canvas.toDataURL('{kind}');"
    );
    let address = stage.js(&script).await;
    let (_, text) = address
        .as_str()
        .and_then(|text| text.split_once(','))
        .expect("a picture");
    base64::Engine::decode(&base64::engine::general_purpose::STANDARD, text).expect("base64")
}

pub async fn branded(stage: &mut Stage) -> Told {
    let folder = tempfile::tempdir().expect("a folder");
    let token = stage.link(amounts(&["6.5"])).await;
    stage.visit(&token, "").await;
    let logo = folder.path().join("logo");
    for (name, colours) in COLOURS {
        let mut brand = coloured(colours);
        if name == "-published" {
            std::fs::write(&logo, picture(stage, "image/png").await).expect("written");
            brand.logo = Some(logo.clone());
        }
        let service = Branded::start(stage, folder.path(), brand).await;
        stage.origin = Some(service.address.clone());
        for is_dark in [false, true] {
            stage.dress(1100, 900, is_dark).await;
            stage.look = match (name, is_dark) {
                ("-published", false) => "-brand",
                ("-published", true) => "-brand-dark",
                ("-yellow", false) => "-brand-yellow",
                ("-yellow", true) => "-brand-yellow-dark",
                ("-black", false) => "-brand-black",
                ("-black", true) => "-brand-black-dark",
                (_, false) => "-brand-grey",
                (_, true) => "-brand-grey-dark",
            };
            stage.connect(&token, "options").await?;
        }
        if name == "-published" {
            logo_stands(stage).await?;
        }
        stage.browser.open(&stage.at("/pay/01ARZ3NDEKTSV4RRFFQ69G5FAV")).await;
        stage.judge("unknown").await;
    }
    Ok(())
}

async fn logo_stands(stage: &mut Stage) -> Told {
    let token = stage.link(amounts(&["6.5"])).await;
    stage.look = "-brand";
    stage.dress(1100, 900, false).await;
    stage.visit(&token, "").await;
    stage.until("connect").await?;
    let seen = stage
        .js(
            "const logo = document.querySelector('.logo'); const all = performance.getEntriesByType('resource'); \
             return [logo.naturalWidth, new URL(logo.src).origin === location.origin, 1 + all.length, document.title, \
             all.filter((one) => !one.name.startsWith(location.origin)).length];",
        )
        .await;
    holds(seen[0] == 160 && seen[1] == true && seen[4] == 0, format!("{seen}"))?;
    holds(
        seen[2].as_u64().is_some_and(|calls| calls <= CALLS_MAX),
        format!("{seen}"),
    )?;
    holds(seen[3] == "6.5\u{a0}FAU to Kestrel & Söhne", format!("{seen}"))?;
    println!("calls of a page with a brand and a logo: {}", seen[2]);
    let text = stage.text().await;
    holds(text.contains("Terms") && text.contains("Kestrel & Söhne"), text)?;
    stage.press("Own Wallet").await?;
    stage.until("options").await?;
    stage.press("Pay 6.5").await?;
    stage.until("success").await?;
    stage.browser.open(&stage.at(&format!("/pay/{token}/receipt"))).await;
    stage.judge("receipt").await;
    let text = stage.text().await.to_lowercase();
    for part in ["kestrel", &stage.wallet.account, "request", "paid by"] {
        holds(text.contains(part), format!("the receipt lacks {part}: {text}"))?;
    }
    // The operator is not the recipient of a payout, so the page shows neither its name nor its logo.
    let payout = stage.payout("FAU-sepolia", "6.6").await;
    let (_, text) = stage.read(&format!("/pay/{payout}")).await;
    holds(
        !text.contains("Kestrel") && !text.contains("/pay/logo/"),
        "a payout shows the brand",
    )
}

pub async fn hostile_names(stage: &mut Stage) -> Told {
    let folder = tempfile::tempdir().expect("a folder");
    let mut dice = Dice::new(16);
    let named = |name: &str| BrandSettings {
        name: Some(name.to_owned()),
        ..BrandSettings::default()
    };
    let is_taken = |name: &str| {
        let mut settings = Settings::development(([127, 0, 0, 1], 1).into());
        settings.brand = named(name);
        settings.validate().is_ok()
    };
    let (mut taken, mut refused) = (Vec::new(), 0);
    while taken.len() < SHOWN {
        let name: String = dice.text().chars().take(60).collect();
        if is_taken(&name) {
            taken.push(name)
        } else {
            refused += 1
        }
    }
    let pending = stage.link(amounts(&["6.7"])).await;
    let completed = stage.link(amounts(&["6.7"])).await;
    stage.settle(&completed).await;
    stage.until_paid(std::slice::from_ref(&completed)).await?;
    let pages = [
        (&pending, ""),
        (&pending, "/receipt"),
        (&completed, ""),
        (&completed, "/receipt"),
    ];
    let mut plain: Vec<Value> = Vec::new();
    let shown = ["Shop".to_owned()].into_iter().chain(taken);
    let mut count = 0;
    for name in shown {
        let service = Branded::start(stage, folder.path(), named(&name)).await;
        stage.origin = Some(service.address.clone());
        for (index, (token, page)) in pages.iter().enumerate() {
            let mut seen = look(stage, token, page).await;
            let title = seen["title"].as_str().unwrap_or_default().to_owned();
            let is_shown = seen["texts"]
                .as_array()
                .is_some_and(|texts| texts.contains(&json!(name)));
            let spaced = |text: &str| text.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
            holds(
                is_shown && title.contains(&spaced(&name)),
                format!("{name} is not shown: {title}"),
            )?;
            seen["title"] = json!("");
            match plain.get(index) {
                Some(plain) => sane(&seen, plain).map_err(|error| format!("{name} on {page}: {error}"))?,
                None => plain.push(seen),
            }
        }
        count += 1;
    }
    println!(
        "{} hostile brand names in page, receipt and title, {refused} more refused at startup: 0 scripts ran, 0 were blocked, \
         0 extra elements",
        count - 1
    );
    holds(count == SHOWN + 1, "too few names were tested")
}
