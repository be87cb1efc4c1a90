//! Rate feeds controlled by tests, and a service that reads them.

use super::{TestApp, app::settings};
use alloy::eips::BlockNumberOrTag;
use chrono::{DateTime, TimeDelta, Utc};
use prs::{
    flows::rates::refresh,
    settings::{RateSource, Settings},
};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};
use wiremock::{Mock, MockServer, Request, Respond, ResponseTemplate, matchers::any};

/// A feed in the simple-price format.
pub struct Feed {
    server: MockServer,
    answer: Arc<Mutex<Told>>,
}

#[derive(Clone)]
struct Told {
    status: u16,
    body: String,
    after: Duration,
}

struct Answers(Arc<Mutex<Told>>);

impl Respond for Answers {
    fn respond(&self, _: &Request) -> ResponseTemplate {
        let told = self.0.lock().expect("unpoisoned").clone();
        ResponseTemplate::new(told.status)
            .set_body_string(told.body)
            .set_delay(told.after)
    }
}

impl Feed {
    /// Starts a feed without prices.
    pub async fn start() -> Self {
        let answer = Arc::new(Mutex::new(Told {
            status: 200,
            body: "{}".to_owned(),
            after: Duration::ZERO,
        }));
        let server = MockServer::start().await;
        Mock::given(any())
            .respond_with(Answers(Arc::clone(&answer)))
            .mount(&server)
            .await;
        Self { server, answer }
    }

    fn change(&self, change: impl FnOnce(&mut Told)) {
        change(&mut self.answer.lock().expect("unpoisoned"));
    }

    /// Makes the feed return exactly this text from now on.
    pub fn tells_text(&self, body: impl Into<String>) {
        let body = body.into();
        self.change(|told| {
            *told = Told {
                status: 200,
                body,
                after: Duration::ZERO,
            }
        });
    }

    /// Sets the price of one USDC in dollars, and the time of the price. Sets the same price for USDT, because the
    /// service accepts the first price of a coin only if a second coin confirms it. The feed returns the number exactly
    /// as given.
    pub fn tells(&self, price: &str, as_of: DateTime<Utc>) {
        let seconds = as_of.timestamp();
        let told = format!(r#"{{"usd":{price},"last_updated_at":{seconds}}}"#);
        self.tells_text(format!(r#"{{"usd-coin":{told},"tether":{told}}}"#));
    }

    /// Makes the feed return an error from now on.
    pub fn fails(&self, status: u16) {
        self.change(|told| told.status = status);
    }

    /// Delays responses from now on.
    pub fn dawdles(&self, after: Duration) {
        self.change(|told| told.after = after);
    }

    /// URL of its simple prices.
    pub fn url(&self) -> String {
        format!("{}/simple/price", self.server.uri())
    }
}

/// Settings with rate feeds.
pub fn rated_by(feeds: &[&Feed]) -> Settings {
    let mut settings = settings();
    settings.partners.rates = RateSource::Http;
    settings.conversion.feed_urls = feeds.iter().map(|feed| feed.url()).collect();
    settings
}

impl TestApp {
    /// Starts the service on its own chain, with a feed that returns this USDC price. The clocks of service and chain
    /// show the same time.
    pub async fn quoting(price: &str) -> (Self, Feed) {
        let feed = Feed::start().await;
        let app = Self::on_chain_as(rated_by(&[&feed]), 1).await;
        app.follow_chain_time().await;
        app.tells(&feed, price).await;
        (app, feed)
    }

    /// Moves the clock of the service to the time of the newest block.
    pub async fn follow_chain_time(&self) {
        let block = self.devnet().block(BlockNumberOrTag::Latest).await.expect("a node");
        let seconds = i64::try_from(block.expect("a block").timestamp).expect("a time");
        let time = DateTime::from_timestamp(seconds, 0).expect("a time");
        let ahead = time - self.ctx.clock.now();
        self.advance_ms(ahead.num_milliseconds().max(0));
    }

    /// Advances the service and its chain together.
    pub async fn pass(&self, seconds: u64) {
        self.devnet().increase_time(seconds).await.expect("a node");
        self.advance_ms(i64::try_from(seconds).expect("a span") * 1_000);
        self.follow_chain_time().await;
    }

    /// Makes the feed report a current price, and lets the service read it. Block times are whole seconds, so the time
    /// of the next block is later than that of the price.
    pub async fn tells(&self, feed: &Feed, price: &str) {
        feed.tells(price, self.ctx.clock.now() - TimeDelta::seconds(1));
        self.read_rates().await;
        self.devnet().increase_time(1).await.expect("a node");
    }

    /// Reads the feeds; an unresponsive feed changes nothing.
    pub async fn read_rates(&self) {
        // Advances the clock, because two reads at the same time count as one.
        self.advance_ms(1);
        let _ = refresh::now_once(&self.ctx).await;
    }
}
