//! What Tron does not support, and invalid input of payments on Tron: each case names its field and the valid form. No
//! node responds, because no case needs one.

use crate::support::{
    Answer, TestApp,
    app::{PAGE, settings},
    links::{link_of, payout_of, token_of},
    requests::{PAYEE, fau, request},
    wallet::session,
};
use poem::http::Method;
use prs::{
    domain::{address::Address, caller::SignedInPerson, currency::ContractKind, network::Network},
    flows::{
        self,
        client_ids::create::NewClientId,
        destinations::{self, NewDestination},
        idempotency::{KeyedResult, RepeatableCall},
    },
    settings::ChainSettings,
    store,
};
use serde_json::{Value, json};

/// A wallet on Tron.
const WALLET: &str = "TJRabPrwbZy45sbavfcjinPJC18kjpRTv8";

/// Another wallet on Tron.
const OTHER: &str = "TQu6q2b9ctdY7tJH3EEX68ys3ywRvrbEz1";

/// [`WALLET`] with another last character.
const MISSPELT: &str = "TJRabPrwbZy45sbavfcjinPJC18kjpRTv9";

/// [`WALLET`] with one letter in another case.
const OTHER_CASE: &str = "TJRabPrwbZy45sbavfcjinPJC18kjpRTV8";

const USDT: &str = "TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t";
const USDC: &str = "TEkxiTehnzSmSe2XqrBj4w32RUN966rdz8";
const PROXY: &str = "TCUDPYnS9dH3WvFEaE7wN7vnDa51J4R4fd";
const BATCH_PROXY: &str = "TRZbXXuLd3HW5utzVysA3rpLgU7sVBrd1D";

/// The published sentence for several payments on Tron.
const ONE_BY_ONE: &str =
    "Batch payments are not supported for TRON networks. Please submit individual payment requests.";

const CHECKSUM: &str = "has a wrong Base58 checksum";
const TRON_ADDRESS: &str = "must be a Tron address (34 Base58 characters starting with T) for a payment on tron";
const EVM_ADDRESS: &str = "must be an EVM address (0x and 40 hexadecimal digits) for a payment on sepolia";
const CONTRACT: &str = "must be a wallet: this is the address of a token or payment contract";
const SAME_CHAIN: &str = "must be absent: Tron payments are same-chain only";

/// The service with Tron and Sepolia, whose nodes are down.
pub(crate) async fn app() -> TestApp {
    let mut settings = settings();
    let tron = ChainSettings {
        api_urls: vec!["http://127.0.0.1:1".to_owned()],
        ..ChainSettings::default()
    };
    let sepolia = ChainSettings {
        rpc_urls: vec!["http://127.0.0.1:1".to_owned()],
        ..ChainSettings::default()
    };
    settings.chains.insert("tron".to_owned(), tron);
    settings.chains.insert("sepolia".to_owned(), sepolia);
    TestApp::with(settings, None).await
}

/// The service where the tenant is paid in USDT on Tron.
async fn app_with_destination() -> TestApp {
    let app = app().await;
    let wallet = Address::parse(WALLET).expect("an address");
    let tx = app.ctx.db.begin("a wallet").await.expect("begins");
    let bound = store::accounts::bind_wallet(&tx, &wallet, &app.platform, app.ctx.clock.now()).await;
    bound.expect("written");
    tx.commit().await.expect("commits");
    let input = NewDestination {
        token: USDT.to_owned(),
        chain_id: Network::Tron.chain_id(),
        policy: None,
    };
    let owner = session(&app.platform, SignedInPerson::Wallet(wallet));
    let made = destinations::create::run(&app.ctx, &owner, &input, RepeatableCall::unkeyed()).await;
    made.expect("a destination");
    app
}

/// The body of a request in USDT on Tron.
fn usdt(amount: &str) -> Value {
    with(request(amount, "USDT-tron", "USDT-tron"), &json!({ "payee": WALLET }))
}

/// The body of a payout link in USDT on Tron.
fn usdt_payout(recipient: &str) -> Value {
    with(
        payout_of(recipient, "5"),
        &json!({ "network": "tron", "currency": "USDT-tron" }),
    )
}

fn with(mut body: Value, members: &Value) -> Value {
    for (name, value) in members.as_object().expect("an object") {
        body[name] = value.clone();
    }
    body
}

/// Checks that a response is a 400 that names the field, with a message that begins like this.
#[track_caller]
fn names(answer: &Answer, field: &str, begins: &str) {
    let json = answer.expect(400);
    let errors = json["errors"].as_array().unwrap_or_else(|| panic!("errors in {json}"));
    let of_field = errors.iter().filter(|error| error["field"] == field);
    let mut messages = of_field.filter_map(|error| error["message"].as_str());
    assert!(
        messages.any(|message| message.starts_with(begins)),
        "{field}: {begins} in {json}"
    );
}

#[tokio::test]
async fn the_catalogue_of_tron_has_two_tokens_and_the_proxy() {
    let app = app().await;
    let catalogue = &app.ctx.catalogue;
    let proxy = catalogue.default_contract(Network::Tron, ContractKind::Erc20FeeProxy);
    assert_eq!(proxy.map(|address| address.to_string()).as_deref(), Some(PROXY));
    let contracts = catalogue.contracts(Network::Tron).iter();
    let contracts: Vec<_> = contracts
        .map(|contract| (contract.kind, contract.address.to_string(), contract.creation_block))
        .collect();
    assert_eq!(
        contracts,
        [
            (ContractKind::Erc20FeeProxy, PROXY.to_owned(), 79_216_121),
            (ContractKind::Erc20BatchPayments, BATCH_PROXY.to_owned(), 83_104_290),
        ]
    );
    let listed = app.get("/v2/currencies?network=tron").with_key().send().await;
    let listed = listed.expect(200);
    let fields = |currency: &Value| ["id", "address", "decimals", "type"].map(|name| currency[name].clone());
    let listed: Vec<_> = listed.as_array().expect("a list").iter().map(fields).collect();
    assert_eq!(
        listed,
        [
            [json!("USDT-tron"), json!(USDT), json!(6), json!("TRC20")],
            [json!("USDC-tron"), json!(USDC), json!(6), json!("TRC20")],
        ],
        "the coin is no currency of requests"
    );
    let coin = catalogue.coin_of(Network::Tron).expect("a coin");
    assert_eq!((coin.id.as_str(), coin.decimals), ("TRX-tron", 6));
    let routes = app.get("/v2/currencies/USD/conversion-routes?networks=tron");
    assert_eq!(
        routes.with_key().send().await.expect(200)["conversionRoutes"],
        json!([])
    );
    for path in [
        "/v2/currencies?id=TRX-tron",
        "/v2/currencies/TRX-tron/conversion-routes",
    ] {
        let unknown = app.get(path).with_key().send().await.expect(404);
        assert_eq!(unknown["message"], "Token not found", "{path}");
    }
}

#[tokio::test]
async fn several_payments_on_tron_are_refused_with_the_published_sentence() {
    let app = app_with_destination().await;
    let id = app.create_request(&usdt("1")).await;
    let other = app.create_request(&usdt("2")).await;
    let payouts = [
        app.child_link(&usdt_payout(WALLET)).await,
        app.child_link(&usdt_payout(OTHER)).await,
    ];
    let batch = "/v2/payouts/batch";
    let tokens = payouts.each_ref().map(|payout| payout.token.as_str());
    let multicall = json!({ "childTokens": tokens });
    for (path, body) in [
        (batch, json!({ "requests": [usdt("1"), usdt("2")] })),
        (batch, json!({ "requests": [usdt("1")] })),
        (batch, json!({ "requests": [fau("1"), usdt("1")] })),
        (
            batch,
            json!({ "requests": [with(fau("1"), &json!({ "payee": WALLET }))] }),
        ),
        (batch, json!({ "requestIds": [id, other] })),
        (batch, json!({ "requestIds": [id] })),
        ("/v2/secure-payments", link_of(&["1", "2"])),
        ("/v2/secure-payments/batch-payouts", json!({ "tokens": tokens })),
        ("/v2/secure-payments/multicall-payouts", multicall.clone()),
        (
            "/v2/secure-payments/multicall-payouts",
            with(multicall, &json!({ "requestedExecutionKind": "tron_batch" })),
        ),
    ] {
        let refused = app.post(path).with_key().json(&body).send().await;
        let json = refused.expect(400);
        assert_eq!(json["message"], ONE_BY_ONE, "{path}");
        assert!(refused.wrong_fields().is_empty(), "{path}: {json}");
    }
}

#[tokio::test]
async fn a_request_on_tron_with_invalid_members_names_each() {
    let app = app().await;
    let currencies = |invoice: &str, payment: &str| json!({ "invoiceCurrency": invoice, "paymentCurrency": payment });
    let recurrence = json!({ "recurrence": { "startDate": "2040-02-01", "frequency": "MONTHLY" } });
    let only_fees = "must be a token on tron, USDT-tron or USDC-tron: TRX only pays network fees";
    for (members, field, begins) in [
        (json!({ "payee": PAYEE }), "payee", TRON_ADDRESS),
        (json!({ "payer": PAYEE }), "payer", TRON_ADDRESS),
        (json!({ "payee": MISSPELT }), "payee", CHECKSUM),
        (json!({ "payee": OTHER_CASE }), "payee", CHECKSUM),
        (json!({ "payer": MISSPELT }), "payer", CHECKSUM),
        (
            json!({ "payee": WALLET.to_lowercase() }),
            "payee",
            "must be a wallet address",
        ),
        (json!({ "payee": USDT }), "payee", CONTRACT),
        (json!({ "payee": USDC }), "payee", CONTRACT),
        (json!({ "payee": PROXY }), "payee", CONTRACT),
        (json!({ "payee": BATCH_PROXY }), "payee", CONTRACT),
        (
            currencies("USD", "USDT-tron"),
            "paymentCurrency",
            "USD cannot be paid in USDT-tron",
        ),
        (
            currencies("USDC-tron", "USDT-tron"),
            "paymentCurrency",
            "USDC-tron cannot be paid in USDT-tron",
        ),
        (currencies("TRX-tron", "TRX-tron"), "paymentCurrency", only_fees),
        (currencies("TRX-tron", "USDT-tron"), "invoiceCurrency", only_fees),
        (currencies("USD", "TRX-tron"), "paymentCurrency", only_fees),
        (
            recurrence,
            "recurrence",
            "must be absent: recurring payments are supported on EVM",
        ),
        (
            json!({ "isCryptoToFiatAvailable": true }),
            "paymentCurrency",
            "must be USDC on one of mainnet, matic, arbitrum-one, sepolia",
        ),
        (
            json!({ "isCryptoToFiatAvailable": true }),
            "isCryptoToFiatAvailable",
            "must be false",
        ),
        (json!({ "amount": "1.0000001" }), "amount", ""),
    ] {
        let body = with(usdt("1"), &members);
        let refused = app.post("/v2/request").with_key().json(&body).send().await;
        names(&refused, field, begins);
    }
    for (members, field) in [
        (json!({ "payee": WALLET }), "payee"),
        (json!({ "payer": WALLET }), "payer"),
    ] {
        let body = with(fau("1"), &members);
        let refused = app.post("/v2/request").with_key().json(&body).send().await;
        names(&refused, field, EVM_ADDRESS);
    }
    app.create_request(&usdt("1")).await;
}

#[tokio::test]
async fn a_payout_on_tron_with_invalid_members_names_each() {
    let app = app().await;
    let recurrence = json!({
        "startDate": "2040-02-01", "frequency": "MONTHLY", "totalPayments": 3, "payer": OTHER,
    });
    let fee = |receiver: &str| json!({ "feePercentage": "1", "feeAddress": receiver });
    for (body, members, field, begins) in [
        (usdt("1"), json!({ "payee": PAYEE }), "payee", TRON_ADDRESS),
        (usdt("1"), json!({ "payee": USDT }), "payee", CONTRACT),
        (usdt("1"), json!({ "payerWallet": PAYEE }), "payerWallet", TRON_ADDRESS),
        (
            usdt("1"),
            json!({ "payerAddress": PAYEE }),
            "payerAddress",
            TRON_ADDRESS,
        ),
        (usdt("1"), json!({ "payerWallet": MISSPELT }), "payerWallet", CHECKSUM),
        (usdt("1"), fee(PAYEE), "feeAddress", TRON_ADDRESS),
        (usdt("1"), fee(PROXY), "feeAddress", CONTRACT),
        (usdt("1"), fee(MISSPELT), "feeAddress", CHECKSUM),
        (
            usdt("1"),
            json!({ "recurrence": recurrence }),
            "recurrence",
            "must be absent: recurring payments are supported on EVM networks only",
        ),
        (
            usdt("1"),
            json!({ "paymentCurrency": "TRX-tron" }),
            "paymentCurrency",
            "must be a token on tron",
        ),
        (fau("1"), json!({ "payee": WALLET }), "payee", EVM_ADDRESS),
        (fau("1"), json!({ "payerWallet": WALLET }), "payerWallet", EVM_ADDRESS),
        (fau("1"), fee(WALLET), "feeAddress", EVM_ADDRESS),
    ] {
        let body = with(body, &members);
        let refused = app.post("/v2/payouts").with_key().json(&body).send().await;
        names(&refused, field, begins);
    }
}

#[tokio::test]
async fn calldata_of_a_request_on_tron_takes_neither_chain_nor_evm_wallets() {
    let app = app().await;
    let on_tron = app.create_request(&usdt("1")).await;
    let on_sepolia = app.create_request(&fau("1")).await;
    for (id, query, field, begins) in [
        (&on_tron, "chain=BASE&token=USDC".to_owned(), "chain", SAME_CHAIN),
        (&on_tron, "chain=BASE&token=USDC".to_owned(), "token", SAME_CHAIN),
        (&on_tron, format!("wallet={PAYEE}"), "wallet", TRON_ADDRESS),
        (&on_tron, format!("wallet={MISSPELT}"), "wallet", CHECKSUM),
        (
            &on_tron,
            format!("feePercentage=1&feeAddress={PAYEE}"),
            "feeAddress",
            TRON_ADDRESS,
        ),
        (
            &on_tron,
            format!("feePercentage=1&feeAddress={USDT}"),
            "feeAddress",
            CONTRACT,
        ),
        (&on_sepolia, format!("wallet={WALLET}"), "wallet", EVM_ADDRESS),
        (
            &on_sepolia,
            format!("feePercentage=1&feeAddress={WALLET}"),
            "feeAddress",
            EVM_ADDRESS,
        ),
        (
            &on_sepolia,
            "chain=BASE&token=USDC".to_owned(),
            "chain",
            "must be absent: no crosschain route is configured",
        ),
    ] {
        let path = format!("/v2/request/{id}/pay?{query}");
        names(&app.get(&path).with_key().send().await, field, begins);
    }
}

#[tokio::test]
async fn a_bad_wallet_of_a_tron_request_is_named_as_such() {
    let app = app().await;
    let id = app.create_request(&usdt("1")).await;
    let form = "must be a wallet address: 0x and 40 hexadecimal digits, or a Tron address: T and 33 more characters, \
                in their exact case";
    for (wallet, sentence) in [
        (WALLET.to_lowercase().as_str(), form),
        (&WALLET.to_uppercase(), form),
        (&WALLET[..33], form),
        (&format!("{WALLET}2"), form),
        ("Tether", "Invalid Ethereum address"),
        ("0x12", "Invalid Ethereum address"),
        (&format!("t{}", "-".repeat(33)), "Invalid Ethereum address"),
    ] {
        let refused = app.get(&format!("/v2/request/{id}/pay?wallet={wallet}")).with_key();
        let refused = refused.send().await.expect(400);
        assert_eq!(
            refused["errors"],
            json!([{ "field": "wallet", "message": sentence }]),
            "{wallet}"
        );
    }
}

#[tokio::test]
async fn a_link_on_tron_with_invalid_members_is_not_created() {
    let app = app_with_destination().await;
    let fee = |receiver: &str| json!({ "feePercentage": "1", "feeAddress": receiver });
    let allowing = |wallet: &str| json!({ "accessPolicy": { "allowedPayerAddresses": [wallet] } });
    let allowed = "accessPolicy.allowedPayerAddresses[0]";
    for (members, field, begins) in [
        (fee(PAYEE), "feeAddress", TRON_ADDRESS),
        (fee(PROXY), "feeAddress", CONTRACT),
        (fee(MISSPELT), "feeAddress", CHECKSUM),
        (allowing(OTHER_CASE), allowed, CHECKSUM),
        (allowing(&WALLET.to_uppercase()), allowed, "must be a wallet address"),
    ] {
        let body = with(link_of(&["1"]), &members);
        names(&app.link(&body).await, field, begins);
    }
    for (members, field, begins) in [
        (json!({ "recipient": PAYEE }), "recipient", TRON_ADDRESS),
        (json!({ "recipient": MISSPELT }), "recipient", CHECKSUM),
        (json!({ "recipient": USDC }), "recipient", CONTRACT),
        (json!({ "recipient": PROXY }), "recipient", CONTRACT),
        (fee(PAYEE), "feeAddress", TRON_ADDRESS),
        (json!({ "currency": "TRX-tron" }), "currency", "must be a token on tron"),
        (json!({ "currency": "USDC-base" }), "currency", ""),
        (
            json!({ "currency": "FAU-sepolia" }),
            "currency",
            "must be on the network in `network`",
        ),
        (allowing(OTHER_CASE), allowed, CHECKSUM),
    ] {
        let body = with(usdt_payout(WALLET), &members);
        names(&app.payout_link(&body).await, field, begins);
    }
    names(
        &app.payout_link(&payout_of(WALLET, "1")).await,
        "recipient",
        EVM_ADDRESS,
    );
    // Nothing is paid to the creator, so the form of the address is enough.
    let creator = json!({ "creatorWalletAddress": MISSPELT });
    app.payout_link(&with(usdt_payout(WALLET), &creator)).await.expect(201);
}

#[tokio::test]
async fn a_link_on_tron_takes_neither_chain_nor_safe_nor_report() {
    let app = app_with_destination().await;
    let open = token_of(&app.link(&link_of(&["1"])).await.expect(201));
    let hiding = json!({ "accessPolicy": { "hideUntilApproved": true, "allowedPayerAddresses": [OTHER] } });
    let hidden = token_of(&app.link(&with(link_of(&["1"]), &hiding)).await.expect(201));
    let safe = "must be absent or false: Safe accounts pay on EVM networks only";
    let smart = "must be absent: smart accounts pay on EVM networks only";
    for place in ["", "/pay"] {
        for (token, query, field, begins) in [
            (&open, "chain=BASE&token=USDC".to_owned(), "chain", SAME_CHAIN),
            (&open, "chain=BASE&token=USDC".to_owned(), "token", SAME_CHAIN),
            (
                &open,
                format!("wallet={OTHER}&chain=BASE&token=USDT"),
                "chain",
                SAME_CHAIN,
            ),
            (&open, format!("wallet={OTHER}&isSafe=true"), "isSafe", safe),
            (&open, format!("wallet={PAYEE}&isSafe=true"), "isSafe", safe),
            (&open, format!("wallet={OTHER}&eoaWallet={WALLET}"), "eoaWallet", smart),
            (&open, format!("wallet={OTHER}&eoaWallet={PAYEE}"), "eoaWallet", smart),
            (&open, format!("wallet={PAYEE}"), "wallet", TRON_ADDRESS),
            (&open, format!("wallet={MISSPELT}"), "wallet", CHECKSUM),
            (&hidden, format!("wallet={OTHER}&isSafe=true"), "isSafe", safe),
            (
                &hidden,
                format!("wallet={PAYEE}"),
                "wallet",
                "must be an address of the network of this payment",
            ),
        ] {
            let refused = app.open_link(token, &format!("{place}?{query}")).send().await;
            names(&refused, field, begins);
        }
    }
    // The account without a wallet is refused first: with a wallet it would be refused too.
    for place in ["", "/pay"] {
        for (query, field, begins) in [
            ("isSafe=true".to_owned(), "isSafe", safe),
            (format!("eoaWallet={PAYEE}"), "eoaWallet", smart),
            (format!("eoaWallet={WALLET}"), "eoaWallet", smart),
        ] {
            let refused = app.open_link(&open, &format!("{place}?{query}")).send().await;
            names(&refused, field, begins);
            assert_eq!(refused.wrong_fields(), [field], "{place}?{query}");
        }
    }
    let report = |payer: Option<&str>| {
        let hash = format!("0x{}", "ab".repeat(32));
        let mut body = json!({ "txHash": hash, "chain": "BASE", "token": "USDT" });
        if let Some(payer) = payer {
            body["payerAddress"] = json!(payer);
        }
        body
    };
    for (token, body, field, begins) in [
        (
            &open,
            report(None),
            "chain",
            "must be the chain of the link, and payments on Tron",
        ),
        (
            &open,
            report(Some(OTHER)),
            "chain",
            "must be the chain of the link, and payments on Tron",
        ),
        (
            &hidden,
            report(Some(OTHER)),
            "chain",
            "must be the chain of the link, and payments on Tron",
        ),
        (&hidden, report(None), "payerAddress", "is required"),
    ] {
        let refused = app.report_payment(token, &body).await;
        names(&refused, field, begins);
    }
    app.report_payment(&hidden, &report(Some(WALLET))).await.expect(403);
    let opened = app.open_link(&open, "").send().await.expect(200);
    assert_eq!(opened["inFlight"], false, "no report was stored");
    let on_sepolia = token_of(&app.payout_link(&payout_of(PAYEE, "1")).await.expect(201));
    for place in ["", "/pay"] {
        let refused = app
            .open_link(&on_sepolia, &format!("{place}?wallet={OTHER}"))
            .send()
            .await;
        names(&refused, "wallet", EVM_ADDRESS);
    }
}

#[tokio::test]
async fn an_allowlist_of_tron_wallets_is_compared_with_case() {
    let app = app_with_destination().await;
    let policy = json!({ "accessPolicy": { "allowedPayerAddresses": [OTHER] } });
    let link = token_of(&app.link(&with(link_of(&["1"]), &policy)).await.expect(201));
    let stored = app.stored_link(&link).await;
    let allowed: Vec<String> = stored.policy.allowed.iter().map(ToString::to_string).collect();
    assert_eq!(allowed, [OTHER]);
    app.calldata_of(&link, Some(WALLET)).await.expect(403);
    let listed = app.calldata_of(&link, Some(OTHER)).await;
    assert_ne!(listed.status, 403, "{}", listed.text);
    let other_case = OTHER.replace("ys3y", "Ys3y");
    names(&app.calldata_of(&link, Some(&other_case)).await, "wallet", CHECKSUM);
}

#[tokio::test]
async fn limits_of_a_client_id_hold_for_tron_wallets() {
    let app = app().await;
    let create = async |members: Value| {
        let body = with(json!({ "label": "Shop", "allowedDomains": [PAGE] }), &members);
        app.post("/v2/client-ids").with_key().json(&body).send().await
    };
    let allowing = |wallet: &str| json!({ "allowedPayees": [wallet] });
    for (members, field, begins) in [
        (allowing(OTHER_CASE), "allowedPayees[0]", CHECKSUM),
        (allowing(USDT), "allowedPayees[0]", CONTRACT),
        (
            json!({ "feePercentage": "1", "feeAddress": PROXY }),
            "feeAddress",
            CONTRACT,
        ),
        (
            json!({ "feePercentage": "1", "feeAddress": MISSPELT }),
            "feeAddress",
            CHECKSUM,
        ),
    ] {
        names(&create(members).await, field, begins);
    }
    let made = create(allowing(WALLET)).await.expect(201);
    assert_eq!(made["allowedPayees"], json!([WALLET]));
    let client = made["clientId"].as_str().expect("text");
    let ask = async |payee: &str| {
        let body = with(usdt("1"), &json!({ "payee": payee }));
        let call = app.post("/v2/request").header("x-client-id", client);
        call.header("origin", PAGE).json(&body).send().await
    };
    ask(WALLET).await.expect(201);
    names(&ask(OTHER).await, "payee", "must be an allowed payee of this client ID");
}

#[tokio::test]
async fn a_client_id_bound_to_a_tron_wallet_requests_no_other_payee() {
    let app = app_with_destination().await;
    let wallet = Address::parse(WALLET).expect("an address");
    let owner = session(&app.platform, SignedInPerson::Wallet(wallet));
    let destination = destinations::read::own(&app.ctx, &owner).await.expect("read");
    let input = NewClientId {
        label: "Bound".to_owned(),
        is_backend: true,
        payee_destination: Some(destination.expect("a destination").id),
        ..NewClientId::default()
    };
    let made = flows::client_ids::create::run(&app.ctx, &owner, &input, RepeatableCall::unkeyed()).await;
    let KeyedResult::Fresh(client) = made.expect("bound") else {
        panic!("no call was repeated");
    };
    let ask = async |body: Value| {
        let call = app.post("/v2/request").header("x-client-id", &client.client_id);
        call.json(&body).send().await
    };
    ask(usdt("1")).await.expect(201);
    let mut unnamed = usdt("1");
    unnamed.as_object_mut().expect("members").remove("payee");
    ask(unnamed).await.expect(201);
    let mut elsewhere = fau("1");
    elsewhere.as_object_mut().expect("members").remove("payee");
    let other = with(usdt("1"), &json!({ "payee": OTHER }));
    let only = format!("must be {WALLET} or absent: this client ID is bound to the payee destination of that wallet");
    for (body, begins) in [
        (other, only.as_str()),
        (
            elsewhere,
            "is required for a payment on sepolia: the payee destination of this client ID is a wallet on tron",
        ),
        (fau("1"), only.as_str()),
    ] {
        names(&ask(body).await, "payee", begins);
    }
    // A link of this client ID pays the destination.
    let link = app.post("/v2/secure-payments").header("x-client-id", &client.client_id);
    let link = link.json(&link_of(&["1"])).send().await;
    let stored = app.stored_link(&token_of(&link.expect(201))).await;
    let paid = stored.destination.map(|key| key.interop.wallet.to_string());
    assert_eq!(paid.as_deref(), Some(WALLET));
}

#[tokio::test]
async fn a_destination_on_tron_is_set_in_a_session_only() {
    let app = app().await;
    for (action, operation) in [
        ("add", "POST /v1/payee-destination"),
        ("deactivate", "PATCH /v1/payee-destination/deactivate"),
    ] {
        let query = format!("walletAddress={WALLET}&action={action}&tokenAddress={USDT}&chainId=728126428");
        let path = format!("/v2/payee-destination/signing-data?{query}");
        let refused = app.get(&path).with_client().send().await;
        let sentence = format!("must name an EVM wallet: a Tron wallet signs in and uses {operation}");
        names(&refused, "walletAddress", &sentence);
    }
    let wrong = app.get(&format!("/v2/payee-destination?walletAddress={OTHER_CASE}"));
    names(&wrong.with_client().send().await, "walletAddress", CHECKSUM);
}

#[tokio::test]
async fn deleting_a_tron_destination_names_the_session_operation() {
    let app = app_with_destination().await;
    let known = app.get(&format!("/v2/payee-destination?walletAddress={WALLET}"));
    let known = known.with_client().send().await.expect(200);
    let id = known["destinationId"].as_str().expect("an id").to_owned();
    for id in [id, format!("tron:{WALLET}:{USDT}")] {
        let path = format!("/v2/payee-destination/{}", id.replace('#', "%23"));
        let body = json!({ "signature": format!("0x{}", "11".repeat(65)), "nonce": "22".repeat(16) });
        let refused = app.call(Method::DELETE, &path).with_client().json(&body).send().await;
        let sentence =
            "must name an EVM wallet: a Tron wallet signs in and uses PATCH /v1/payee-destination/deactivate";
        names(&refused, "destinationId", sentence);
        assert_eq!(refused.wrong_fields(), ["destinationId"]);
    }
    let kept = app.get(&format!("/v2/payee-destination?walletAddress={WALLET}"));
    assert_eq!(kept.with_client().send().await.expect(200), known);
}

#[tokio::test]
async fn a_search_takes_the_hash_with_0x_and_the_wallet_with_its_case() {
    let app = app().await;
    let digits = "aB".repeat(32);
    for path in ["/v2/payments", "/v2/payments/export"] {
        for (query, field, begins) in [
            (
                format!("txHash={digits}"),
                "txHash",
                "must begin with 0x, for a transaction on Tron too: write 0x in front of the 64 hexadecimal digits",
            ),
            (
                format!("txHash={}", digits.replace('a', "g")),
                "txHash",
                "must be a transaction hash: 0x and 64 hexadecimal digits",
            ),
            (format!("walletAddress={OTHER_CASE}"), "walletAddress", CHECKSUM),
            (
                format!("walletAddress={}", WALLET.to_lowercase()),
                "walletAddress",
                "must be a wallet address",
            ),
        ] {
            let refused = app
                .call(Method::GET, &format!("{path}?{query}"))
                .with_key()
                .send()
                .await;
            names(&refused, field, begins);
        }
    }
    for query in [format!("txHash=0x{digits}"), format!("walletAddress={WALLET}")] {
        let found = app.get(&format!("/v2/payments?{query}")).with_key().send().await;
        assert_eq!(found.expect(200)["payments"], json!([]));
    }
}
