//! Other services in a native test.

use super::cache::{self, Cache};
use crate::bindings::imports::informant::plugin::types as contract;
use crate::http::{Error, ErrorCode, Request, Response};

/// Status, headers and body, or why there is no response.
pub(super) type Answer = Result<(u16, Vec<(String, String)>, Vec<u8>), Error>;

/// Answers requests.
pub(super) type Service = Box<dyn FnMut(&Request) -> Answer>;

/// What requests of the plugin meet.
#[derive(Default)]
pub(super) struct Services {
    service: Option<Service>,
    sent: Vec<Request>,
}

impl Cache {
    /// Answers the plugin's HTTP requests: with a status, headers and a body. Until then every request is denied.
    pub fn serve_http<B: Into<Vec<u8>>>(
        &self,
        mut service: impl FnMut(&Request) -> (u16, Vec<(String, String)>, B) + 'static,
    ) {
        self.serve(move |request| {
            let (status, headers, body) = service(request);
            Ok((status, headers, body.into()))
        });
    }

    /// As [`serve_http`](Self::serve_http), with a service that may fail.
    pub(super) fn serve(&self, service: impl FnMut(&Request) -> Answer + 'static) {
        cache::with(|state| state.services.service = Some(Box::new(service)));
    }

    /// The requests that were sent since the last call.
    pub fn take_requests(&self) -> Vec<Request> {
        cache::with(|state| std::mem::take(&mut state.services.sent))
    }
}

pub(crate) fn send(request: &Request) -> Result<Response, Error> {
    let denied = || {
        let message = format!(
            "{} is not granted (allow.http): call Cache::serve_http in the test",
            request.origin()
        );
        Error::new(ErrorCode::Denied, message)
    };
    let service = cache::with(|state| {
        let is_denied = state
            .refusal
            .as_ref()
            .is_some_and(|error| matches!(error.code, contract::ErrorCode::Denied | contract::ErrorCode::NotHere));
        state.services.service.take_if(|_| !is_denied)
    });
    let mut service = service.ok_or_else(denied)?;
    // The service may look at the cache.
    let answer = service(request);
    cache::with(|state| {
        state.services.sent.push(request.clone());
        state.services.service = Some(service);
    });
    let (status, headers, body) = answer?;
    let headers = headers
        .into_iter()
        .map(|(name, value)| (name.to_ascii_lowercase(), value.into_bytes()));
    Ok(Response::new(request, status, headers.collect(), body))
}
