//! Rate feeds: over HTTP, from a file, and the sandbox of `prs dev`. All of them use the CoinGecko simple price format.

mod file;
mod http;
pub mod sandbox;
mod simple_price;

pub use file::FileFeed;
pub use http::{HttpFeed, HttpFeedOptions};
pub use simple_price::CoinIds;
