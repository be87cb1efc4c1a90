//! Feeds of rates: over HTTP, from a file, and the sandbox of `prs dev`. All of them speak the shape in which CoinGecko
//! publishes simple prices.

mod file;
mod http;
pub mod sandbox;
mod simple_price;

pub use file::FileFeed;
pub use http::{HttpFeed, HttpFeedOptions};
pub use simple_price::CoinIds;
