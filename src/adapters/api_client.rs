//! An HTTP client for the API of a running service, used by commands of this program.

use anyhow::{Context, bail};
use reqwest::{
    Client, Method, RequestBuilder, Response,
    header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
    redirect,
};
use serde_json::Value;
use std::time::Duration;
use url::Url;

/// Timeout for opening a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Timeout of a call that is not a stream.
const CALL_TIMEOUT: Duration = Duration::from_secs(35);

/// Timeout of a webhook to a local receiver, equal to the timeout of every webhook receiver.
const FORWARD_TIMEOUT: Duration = Duration::from_millis(crate::domain::webhook::TRY_TIMEOUT_MS);

/// Time without data after which a stream counts as dead; the service sends a keep-alive every 15 seconds.
const SILENCE_MAX: Duration = Duration::from_secs(45);

/// A running service and its API key.
#[derive(Clone)]
pub struct ApiClient {
    client: Client,
    base: Url,
    key: HeaderValue,
}

/// One message of a stream of server-sent events.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Message {
    /// Id to resume after.
    pub id: String,
    /// Name.
    pub event: String,
    /// Body.
    pub data: String,
}

/// An open stream.
pub struct EventStream {
    response: Response,
    parser: Parser,
}

/// Assembles messages from the chunks of a stream.
#[derive(Debug, Default)]
struct Parser {
    bytes: Vec<u8>,
    message: Message,
    has_data: bool,
}

impl Parser {
    /// The next complete received message.
    fn next(&mut self) -> Option<Message> {
        while let Some(end) = self.bytes.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.bytes.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line);
            let line = line.trim_end_matches(['\n', '\r']);
            if line.is_empty() {
                let message = std::mem::take(&mut self.message);
                if std::mem::take(&mut self.has_data) {
                    return Some(message);
                }
                continue;
            }
            let (field, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match field {
                "id" => value.clone_into(&mut self.message.id),
                "event" => value.clone_into(&mut self.message.event),
                "data" => {
                    if std::mem::replace(&mut self.has_data, true) {
                        self.message.data.push('\n');
                    }
                    self.message.data.push_str(value);
                }
                _ => {}
            }
        }
        None
    }
}

impl EventStream {
    /// The next message; `None` when the service ended the stream. Errors: the connection broke or timed out.
    pub async fn next(&mut self) -> anyhow::Result<Option<Message>> {
        loop {
            if let Some(message) = self.parser.next() {
                return Ok(Some(message));
            }
            let chunk = tokio::time::timeout(SILENCE_MAX, self.response.chunk()).await;
            match chunk.context("the stream timed out")?? {
                Some(chunk) => self.parser.bytes.extend_from_slice(&chunk),
                None => return Ok(None),
            }
        }
    }
}

impl ApiClient {
    /// A client for the service at `base`.
    pub fn new(base: &str, key: &str) -> anyhow::Result<Self> {
        let mut key =
            HeaderValue::from_str(key).context("the API key contains characters that an HTTP header cannot contain")?;
        key.set_sensitive(true);
        let client = super::client()?
            .redirect(redirect::Policy::none())
            .connect_timeout(CONNECT_TIMEOUT)
            .build()?;
        Ok(Self {
            client,
            base: Url::parse(base).with_context(|| format!("{base} is not an absolute URL"))?,
            key,
        })
    }

    fn request(&self, method: Method, path: &str, query: &[(&str, String)]) -> anyhow::Result<RequestBuilder> {
        let mut url = self.base.join(path)?;
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        Ok(self.client.request(method, url).header("x-api-key", self.key.clone()))
    }

    /// Sends a request. Errors: the service does not respond; the message contains the address of the service and says
    /// what to do.
    async fn send(&self, request: RequestBuilder) -> anyhow::Result<Response> {
        request.send().await.map_err(|error| {
            let base = self.base.as_str().trim_end_matches('/');
            let message = if error.is_connect() {
                format!(
                    "no service responds at {base}: start it with `prs dev` or `prs serve`, or set its address \
                     with --url"
                )
            } else {
                format!("the service at {base} did not respond")
            };
            anyhow::Error::new(error.without_url()).context(message)
        })
    }

    /// Makes a GET call and returns the body. Errors: the service refuses the call; the error has the status and the
    /// message of the service.
    pub async fn get(&self, path: &str, query: &[(&str, String)]) -> anyhow::Result<Value> {
        let request = self.request(Method::GET, path, query)?;
        answer(self.send(request.timeout(CALL_TIMEOUT)).await?).await
    }

    /// Posts JSON and returns the body. Errors: the service refuses the call; the error has the status and the message
    /// of the service.
    pub async fn post(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
        let request = self.request(Method::POST, path, &[])?.json(body);
        answer(self.send(request.timeout(CALL_TIMEOUT)).await?).await
    }

    /// Opens a stream of server-sent events.
    pub async fn follow(&self, path: &str, query: &[(&str, String)]) -> anyhow::Result<EventStream> {
        let response = self.send(self.request(Method::GET, path, query)?).await?;
        if !response.status().is_success() {
            answer(response).await?;
            bail!("the service did not open a stream");
        }
        Ok(EventStream {
            response,
            parser: Parser::default(),
        })
    }

    /// Posts a webhook to a local receiver and returns its status.
    pub async fn forward(&self, url: &str, headers: &[(String, String)], body: String) -> anyhow::Result<u16> {
        let mut all = HeaderMap::new();
        all.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        for (name, value) in headers {
            all.insert(HeaderName::try_from(name)?, HeaderValue::try_from(value)?);
        }
        let call = self.client.post(url).headers(all).body(body).timeout(FORWARD_TIMEOUT);
        Ok(call.send().await?.status().as_u16())
    }
}

async fn answer(response: Response) -> anyhow::Result<Value> {
    let status = response.status();
    let text = response.text().await?;
    let body: Value = serde_json::from_str(&text).unwrap_or(Value::Null);
    if status.is_success() {
        return Ok(body);
    }
    let message = body["message"]
        .as_str()
        .unwrap_or("the service returned an error without a message");
    let fields = body["errors"].as_array().into_iter().flatten();
    let fields: String = fields
        .map(|error| {
            let text = |name: &str| error[name].as_str().unwrap_or_default();
            format!("; {} {}", text("field"), text("message"))
        })
        .collect();
    bail!("{status}: {message}{fields}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_assembled_from_arbitrary_chunks() {
        let text = "id: 01\nevent: payment.confirmed\ndata: {\"a\":\"\u{fc}\"}\n\n:\n\nid: 02\r\ndata: x\r\ndata: y\r\n\r\nid: 03\n";
        for size in 1..=text.len() {
            let mut parser = Parser::default();
            let mut messages = Vec::new();
            for chunk in text.as_bytes().chunks(size) {
                parser.bytes.extend_from_slice(chunk);
                while let Some(message) = parser.next() {
                    messages.push(message);
                }
            }
            assert_eq!(messages.len(), 2, "{size}");
            assert_eq!(
                (
                    messages[0].id.as_str(),
                    messages[0].event.as_str(),
                    messages[0].data.as_str()
                ),
                ("01", "payment.confirmed", "{\"a\":\"\u{fc}\"}")
            );
            assert_eq!((messages[1].id.as_str(), messages[1].data.as_str()), ("02", "x\ny"));
        }
    }
}
