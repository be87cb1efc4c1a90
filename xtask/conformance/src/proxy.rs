//! A proxy that breaks one operation, to see that exactly this one is named.

use std::io::{self, BufReader, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::time::Duration;

use anyhow::Result;
use serde_json::Value;
use ureq::Agent;
use ureq::http::Request;
use xtask::service::hooks::{Message, read_message};

/// How long a caller may take to hang up once it was answered.
const LAST_BYTES_TIMEOUT: Duration = Duration::from_secs(5);

/// How the answers of an operation are broken.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fault {
    /// A success has this status instead.
    Status(u16),
    /// A success lacks this member.
    Member(&'static str),
    /// A success has this member too.
    Added(&'static str),
    /// A success lacks this header.
    Header(&'static str),
    /// A refusal lacks this member.
    Refusal(&'static str),
}

/// What is broken.
#[derive(Debug, Clone)]
pub(crate) struct Break {
    /// In capitals.
    pub(crate) method: String,
    /// As the document writes it.
    pub(crate) path: String,
    pub(crate) fault: Fault,
}

/// Starts a proxy in front of a service for as long as the program runs; returns its address.
pub(crate) fn start(upstream: &str, broken: Break) -> Result<String> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let url = format!("http://127.0.0.1:{}", listener.local_addr()?.port());
    let upstream = upstream.to_owned();
    let agent: Agent = Agent::config_builder()
        .http_status_as_error(false)
        .timeout_global(Some(Duration::from_secs(60)))
        .build()
        .into();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let (agent, upstream, broken) = (agent.clone(), upstream.clone(), broken.clone());
            std::thread::spawn(move || {
                if let Err(error) = pass(stream, &agent, &upstream, &broken) {
                    eprintln!("proxy: {error:#}");
                }
            });
        }
    });
    Ok(url)
}

fn pass(mut stream: TcpStream, agent: &Agent, upstream: &str, broken: &Break) -> Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let Some(Message { line, headers, body }) = read_message(&mut reader)? else {
        return Ok(());
    };
    let mut words = line.split_whitespace();
    let (Some(method), Some(target)) = (words.next(), words.next()) else {
        return Ok(());
    };
    let mut request = Request::builder().method(method).uri(format!("{upstream}{target}"));
    for (name, value) in headers
        .iter()
        .filter(|(name, _)| !["host", "connection", "content-length", "transfer-encoding"].contains(&name.as_str()))
    {
        request = request.header(name, value);
    }
    let mut response = if body.is_empty() {
        agent.run(request.body(())?)?
    } else {
        agent.run(request.body(body)?)?
    };
    let mut status = response.status().as_u16();
    let mut kept: Vec<(String, String)> = response
        .headers()
        .iter()
        .filter(|(name, _)| !["connection", "content-length", "transfer-encoding"].contains(&name.as_str()))
        .map(|(name, value)| (name.to_string(), value.to_str().unwrap_or_default().to_owned()))
        .collect();
    let mut body = response.body_mut().read_to_vec()?;
    if method == broken.method && is_path(&broken.path, target.split('?').next().unwrap_or(target)) {
        let succeeded = status < 400;
        match broken.fault {
            Fault::Status(other) if succeeded => status = other,
            Fault::Header(header) if succeeded => kept.retain(|(name, _)| name != header),
            Fault::Member(member) if succeeded => body = without(&body, member),
            Fault::Added(member) if succeeded => body = with(&body, member),
            Fault::Refusal(member) if !succeeded => body = without(&body, member),
            _ => {}
        }
    }
    write!(
        stream,
        "HTTP/1.1 {status} Proxied\r\ncontent-length: {}\r\nconnection: close\r\n",
        body.len()
    )?;
    for (name, value) in kept {
        write!(stream, "{name}: {value}\r\n")?;
    }
    stream.write_all(b"\r\n")?;
    stream.write_all(&body)?;
    // A call without a body may end in an empty chunk. Whoever closes over bytes that nobody read takes the answer back.
    stream.shutdown(Shutdown::Write)?;
    stream.set_read_timeout(Some(LAST_BYTES_TIMEOUT))?;
    let _ = io::copy(&mut reader, &mut io::sink());
    Ok(())
}

fn with(body: &[u8], member: &str) -> Vec<u8> {
    let mut value: Value = serde_json::from_slice(body).unwrap_or_default();
    if let Some(members) = value.as_object_mut() {
        members.insert(member.to_owned(), Value::Bool(true));
    }
    value.to_string().into_bytes()
}

fn without(body: &[u8], member: &str) -> Vec<u8> {
    let mut value: Value = serde_json::from_slice(body).unwrap_or_default();
    if let Some(members) = value.as_object_mut() {
        members.shift_remove(member);
    }
    value.to_string().into_bytes()
}

/// Whether a path is one of those that a path of the document stands for.
fn is_path(template: &str, path: &str) -> bool {
    let (template, path): (Vec<&str>, Vec<&str>) = (template.split('/').collect(), path.split('/').collect());
    template.len() == path.len()
        && template
            .iter()
            .zip(&path)
            .all(|(part, own)| part.starts_with('{') || part == own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_of_the_document_stands_for_many() {
        assert!(is_path("/v2/request/{requestId}", "/v2/request/01"));
        assert!(!is_path("/v2/request/{requestId}", "/v2/request/01/pay"));
        assert!(!is_path("/v2/request", "/v2/payouts"));
    }
}
