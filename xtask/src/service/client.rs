//! Calls to the service, or to a chain node, over loopback.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use ureq::http::{Request, Response};
use ureq::{Agent, AsSendBody, Body};

/// Time limit of a call, longer than any response takes. If a call takes longer, the service died and there will be no
/// response.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// A response.
#[derive(Debug)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The response body as JSON; as a JSON string if it is no JSON.
    pub body: Value,
    cookies: Vec<String>,
}

impl Answer {
    /// The response body; an error if the status differs.
    pub fn expect(self, status: u16) -> Result<Value> {
        if self.status != status {
            bail!("returned {} instead of {status}: {}", self.status, self.body);
        }
        Ok(self.body)
    }

    /// The value of a cookie that the response sets.
    pub fn cookie(&self, name: &str) -> Option<&str> {
        self.cookies.iter().find_map(|cookie| {
            let (pair, _) = cookie.split_once(';').unwrap_or((cookie, ""));
            let (own, value) = pair.split_once('=')?;
            (own == name).then_some(value)
        })
    }
}

/// An HTTP method with the request body, if any.
#[derive(Debug)]
pub enum Call<'a> {
    /// GET.
    Get,
    /// DELETE.
    Delete,
    /// POST.
    Post(&'a Value),
    /// POST with an idempotency key.
    PostOnce(&'a Value, &'a str),
}

/// Makes calls with one credential.
pub struct Client {
    agent: Agent,
    base_url: String,
    headers: Vec<(&'static str, String)>,
}

impl Client {
    /// A client that sends these headers with every call.
    pub fn new(base_url: &str, headers: Vec<(&'static str, String)>) -> Self {
        let config = Agent::config_builder().http_status_as_error(false).build();
        Self {
            agent: config.into(),
            base_url: base_url.to_owned(),
            headers,
        }
    }

    /// The same client with a separate connection pool.
    pub fn again(&self) -> Self {
        self.at(&self.base_url)
    }

    /// The same client with another base URL.
    pub fn at(&self, base_url: &str) -> Self {
        Self::new(base_url, self.headers.clone())
    }

    /// Makes one call.
    pub fn call(&self, path: &str, call: &Call<'_>) -> Result<Answer> {
        self.call_within(CALL_TIMEOUT, path, call)
    }

    /// Makes one call. Drops the connection if the response takes longer than the timeout, like a caller whose
    /// connection breaks.
    pub fn call_within(&self, timeout: Duration, path: &str, call: &Call<'_>) -> Result<Answer> {
        let url = format!("{}{path}", self.base_url);
        let mut request = match call {
            Call::Get => Request::get(&url),
            Call::Delete => Request::delete(&url),
            Call::Post(_) | Call::PostOnce(..) => Request::post(&url).header("content-type", "application/json"),
        };
        if let Call::PostOnce(_, key) = call {
            request = request.header("idempotency-key", *key);
        }
        for (name, value) in &self.headers {
            request = request.header(*name, value);
        }
        let response = match call {
            Call::Get | Call::Delete => self.send(request.body(())?, timeout),
            Call::Post(body) | Call::PostOnce(body, _) => self.send(request.body(body.to_string())?, timeout),
        };
        let mut response = response.with_context(|| url.clone())?;
        let status = response.status().as_u16();
        let cookies = response.headers().get_all("set-cookie").iter();
        let cookies = cookies.filter_map(|cookie| Some(cookie.to_str().ok()?.to_owned()));
        let cookies = cookies.collect();
        let text = response.body_mut().read_to_string().with_context(|| url.clone())?;
        let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
        Ok(Answer { status, body, cookies })
    }

    fn send<S: AsSendBody>(&self, request: Request<S>, timeout: Duration) -> Result<Response<Body>, ureq::Error> {
        let request = self.agent.configure_request(request);
        self.agent.run(request.timeout_global(Some(timeout)).build())
    }

    /// Sends a GET.
    pub fn get(&self, path: &str) -> Result<Value> {
        self.call(path, &Call::Get)?
            .expect(200)
            .with_context(|| format!("GET {path}"))
    }

    /// Sends a POST.
    pub fn create(&self, path: &str, body: &Value) -> Result<Value> {
        self.call(path, &Call::Post(body))?
            .expect(201)
            .with_context(|| format!("POST {path}"))
    }
}
