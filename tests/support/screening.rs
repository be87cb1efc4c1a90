//! Two screening providers in their published formats. Tests set the responses of both.

use super::{TestApp, app::settings};
use prs::{
    adapters::screening::sandbox::{SandboxReaction, ScreeningSandbox},
    domain::{address::Address, destination::ScreeningProvider, screening::SandboxAnswer},
    ports::screening::ScreeningControls,
    settings::{ChainSettings, ScreeningSource, Settings},
};
use sea_orm::{ConnectionTrait, Statement};
use serde_json::Value;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};
use wiremock::{Mock, MockServer, Request, Respond, ResponseTemplate, matchers::any};

/// How long a hanging provider waits before it responds: longer than the service waits for a query.
const HANGS: Duration = Duration::from_secs(5);

/// Both providers.
pub struct Providers {
    server: MockServer,
    told: Arc<ScreeningSandbox>,
    words: Arc<Mutex<HashMap<&'static str, String>>>,
}

struct Answers {
    told: Arc<ScreeningSandbox>,
    words: Arc<Mutex<HashMap<&'static str, String>>>,
}

fn asked(request: &Request) -> ScreeningProvider {
    match request.url.path() {
        "/screener/reputation" => ScreeningProvider::Hypernative,
        "/api/v4.2/addresses/" => ScreeningProvider::Merklescience,
        other => panic!("unexpected path {other}"),
    }
}

impl Respond for Answers {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        let question = std::str::from_utf8(&request.body).expect("text");
        let provider = asked(request);
        if let Some(word) = self.words.lock().expect("a lock").get(provider.wire()) {
            let wallet: Value = serde_json::from_str(question).expect("a question");
            let wallet = wallet["addresses"][0].as_str().or(wallet["identifier"].as_str());
            let told = word.replace("WALLET", wallet.expect("a wallet"));
            return ResponseTemplate::new(200).set_body_string(told);
        }
        match self.told.react(provider, question) {
            SandboxReaction::Answers(told) => ResponseTemplate::new(200).set_body_string(told),
            SandboxReaction::Fails => ResponseTemplate::new(503),
            SandboxReaction::Hangs => ResponseTemplate::new(503).set_delay(HANGS),
        }
    }
}

impl Providers {
    /// Starts both providers; they approve every wallet.
    pub async fn start() -> Self {
        let (told, words) = (Arc::new(ScreeningSandbox::default()), Arc::default());
        let server = MockServer::start().await;
        let answers = Answers {
            told: Arc::clone(&told),
            words: Arc::clone(&words),
        };
        Mock::given(any()).respond_with(answers).mount(&server).await;
        Self { server, told, words }
    }

    /// Makes a provider return this text for every wallet; `WALLET` in it is replaced with the wallet. `None` ends
    /// this.
    pub fn say(&self, provider: ScreeningProvider, words: Option<&str>) {
        let mut known = self.words.lock().expect("a lock");
        match words {
            Some(words) => known.insert(provider.wire(), words.to_owned()),
            None => known.remove(provider.wire()),
        };
    }

    /// Sets the screening result of a wallet from now on, at one provider or at both.
    pub fn answer(&self, wallet: &str, provider: Option<ScreeningProvider>, answer: SandboxAnswer) {
        let wallet = Address::parse(wallet).expect("a wallet");
        self.told.answer(&wallet, provider, answer);
    }

    /// Number of queries to each provider.
    pub async fn questions(&self, provider: ScreeningProvider) -> usize {
        let requests = self.server.received_requests().await.expect("requests are recorded");
        requests.iter().filter(|request| asked(request) == provider).count()
    }

    /// Settings of a service that uses both providers.
    pub fn settings(&self) -> Settings {
        let mut settings = settings();
        settings.partners.screening = ScreeningSource::Http;
        settings.screening.hypernative_url = self.server.uri();
        settings.screening.merklescience_url = self.server.uri();
        for key in [
            &mut settings.screening.hypernative_client_id,
            &mut settings.screening.hypernative_client_secret,
            &mut settings.screening.merklescience_api_key,
        ] {
            *key = Some("key".to_owned());
        }
        settings
    }
}

/// Settings of a service that uses both providers, with a network whose node is down.
pub fn screened(providers: &Providers) -> Settings {
    let mut settings = providers.settings();
    let chain = ChainSettings {
        rpc_urls: vec!["http://127.0.0.1:9".to_owned()],
        ..ChainSettings::default()
    };
    settings.chains.insert("sepolia".to_owned(), chain);
    settings
}

/// Number of rows in a table.
pub async fn rows(app: &TestApp, table: &str) -> i64 {
    let reader = app.ctx.db.reader();
    let counting = Statement::from_string(
        reader.get_database_backend(),
        format!("SELECT COUNT(*) AS n FROM {table}"),
    );
    let row = reader.query_one_raw(counting).await.expect("counted").expect("a row");
    row.try_get("", "n").expect("a number")
}
