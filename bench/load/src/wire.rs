//! Requests over HTTP/1.1, each to its end.

use crate::answer::{Answer, Failure, Reader};
use crate::plan::{Body, Connections, Plan, Target};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{CONNECTION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use std::cell::{Cell, RefCell};
use std::time::Instant;
use tokio::net::TcpStream;

type Sender = SendRequest<Full<Bytes>>;

/// Sends requests and keeps connections that can serve another.
#[derive(Debug)]
pub struct Client {
    target: Target,
    connections: Connections,
    idle: RefCell<Vec<Sender>>,
    /// Connections that were made.
    pub opened: Cell<u64>,
}

impl Client {
    /// A client without connections.
    #[must_use]
    pub fn new(plan: &Plan, target: Target) -> Client {
        let (idle, opened) = (RefCell::default(), Cell::default());
        Client { target, connections: plan.connections, idle, opened }
    }

    /// One request from its sending to the end of its answer.
    pub async fn ask(&self, plan: &Plan, number: usize, body: &Body, begun: Instant) -> Answer {
        let mut reader = Reader::new(number, body, begun, plan.errors_cut);
        let exchange = tokio::time::timeout(plan.timeout(), self.exchange(&mut reader, body)).await;
        match exchange {
            Ok(Ok(())) => {}
            Ok(Err((failure, message))) => reader.fail(failure, &message),
            Err(_) => reader.fail(Failure::Timeout, "no complete answer in time"),
        }
        reader.finish()
    }

    async fn exchange(&self, reader: &mut Reader, body: &Body) -> Result<(), (Failure, String)> {
        let (sender, response) = self.head(body).await?;
        reader.status(response.status().as_u16());
        let mut content = response.into_body();
        while let Some(frame) = content.frame().await {
            let wanted = frame.map_err(|e| dropped(&e))?.data_ref().is_none_or(|data| reader.take(data));
            if !wanted {
                return Ok(());
            }
        }
        if self.connections == Connections::Kept {
            self.idle.borrow_mut().push(sender);
        }
        Ok(())
    }

    /// The head of an answer, and the connection on which it came.
    async fn head(&self, body: &Body) -> Result<(Sender, Response<Incoming>), (Failure, String)> {
        // A server may end a kept connection just when a request comes (RFC 9112, 9.3.1): asked again on a new one.
        if let Some(mut sender) = self.kept().await
            && let Ok(response) = sender.send_request(self.request(body)).await
        {
            return Ok((sender, response));
        }
        let mut sender = self.fresh().await?;
        let response = sender.send_request(self.request(body)).await.map_err(|e| dropped(&e))?;
        Ok((sender, response))
    }

    /// A kept connection that is not known to have ended.
    async fn kept(&self) -> Option<Sender> {
        loop {
            let mut sender = self.idle.borrow_mut().pop()?;
            if sender.ready().await.is_ok() {
                return Some(sender);
            }
        }
    }

    async fn fresh(&self) -> Result<Sender, (Failure, String)> {
        let failed = |e: &dyn std::error::Error| (Failure::Connect, e.to_string());
        let stream = TcpStream::connect(self.target.address()).await.map_err(|e| failed(&e))?;
        stream.set_nodelay(true).map_err(|e| failed(&e))?;
        self.opened.set(self.opened.get() + 1);
        let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(|e| failed(&e))?;
        // What goes wrong on it is told to the request that uses it.
        tokio::task::spawn_local(connection);
        Ok(sender)
    }

    fn request(&self, body: &Body) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(Bytes::from(body.json.clone())));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.target.path.clone().into();
        let headers = request.headers_mut();
        // A URI's authority has no character that a header may not have.
        if let Ok(host) = HeaderValue::from_str(self.target.authority.as_str()) {
            headers.insert(HOST, host);
        }
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if self.connections == Connections::Fresh {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        request
    }
}

fn dropped(error: &hyper::Error) -> (Failure, String) {
    (Failure::Dropped, error.to_string())
}
