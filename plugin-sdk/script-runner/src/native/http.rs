//! HTTP requests of `fetch`, over `wasi:http` and `wasi:io`. Several run at once: the runner waits for all of them when
//! no JavaScript is left to run.

mod request;

use std::cell::RefCell;

use rquickjs::function::Args;
use rquickjs::{Ctx, Function, Object, Result, TypedArray, Value};

use self::request::{Failure, Request, Response};
use super::throw;
use crate::bindings::wasi::io::poll::{Pollable, poll};

/// Requests that one call may have in flight: 6, as browsers have for each host. `fetch` keeps the others waiting.
pub(crate) const IN_FLIGHT_MAX: usize = 6;

/// The arguments that [`Ended::push`] adds at most.
pub(crate) const ENDED_ARGUMENTS: usize = 6;

thread_local! {
    /// The requests of the present call, with their numbers. An instance has one thread.
    static IN_FLIGHT: RefCell<InFlight> = const { RefCell::new(InFlight { next: 0, requests: Vec::new() }) };
}

struct InFlight {
    next: u32,
    requests: Vec<(u32, Request)>,
}

/// A request that has ended.
pub(crate) struct Ended {
    number: u32,
    outcome: std::result::Result<Response, Failure>,
}

pub(super) fn api<'js>(ctx: &Ctx<'js>) -> Result<Object<'js>> {
    let api = Object::new(ctx.clone())?;
    api.set("inFlightMax", IN_FLIGHT_MAX)?;
    api.set("start", Function::new(ctx.clone(), start)?)?;
    Ok(api)
}

/// Starts a request, and returns its number. `url` is scheme, authority, and path with query; `headers` are names and
/// values in turn. `body` is a text or, if it `is_binary`, has a character for each byte.
fn start(
    ctx: Ctx<'_>,
    method: String,
    url: Vec<String>,
    headers: Vec<String>,
    body: String,
    is_binary: bool,
) -> Result<u32> {
    let body = match is_binary {
        true => body.chars().map(|byte| byte as u8).collect(),
        false => body.into_bytes(),
    };
    let request = Request::start(&method, &url, &headers, body)
        .map_err(|failure| throw(&ctx, failure.code, &failure.message, |_| Ok(())))?;
    IN_FLIGHT.with_borrow_mut(|in_flight| {
        let number = in_flight.next;
        in_flight.next = number.wrapping_add(1);
        in_flight.requests.push((number, request));
        Ok(number)
    })
}

/// Waits until requests have ended, and returns them: none if no request is in flight.
pub(crate) fn wait() -> Vec<Ended> {
    IN_FLIGHT.with_borrow_mut(|InFlight { requests, .. }| {
        let mut ended = Vec::new();
        while !requests.is_empty() && ended.is_empty() {
            let mut ready = ready_of(requests);
            // From the last, because ended ones are removed.
            ready.sort_unstable();
            for at in ready.into_iter().rev() {
                let (number, request) = &mut requests[at as usize];
                if let Some(outcome) = request.advance() {
                    ended.push(Ended {
                        number: *number,
                        outcome,
                    });
                    drop(requests.remove(at as usize));
                }
            }
        }
        ended
    })
}

/// Waits until requests can make progress, and returns their positions.
fn ready_of(requests: &[(u32, Request)]) -> Vec<u32> {
    let pollables: Vec<Pollable> = requests.iter().map(|(_, request)| request.subscribe()).collect();
    let borrowed: Vec<&Pollable> = pollables.iter().collect();
    poll(&borrowed)
}

/// Abandons the requests in flight. Returns whether there were any.
pub(crate) fn abandon() -> bool {
    IN_FLIGHT.with_borrow_mut(|in_flight| !std::mem::take(&mut in_flight.requests).is_empty())
}

impl Ended {
    /// Adds the arguments of the prelude's `settle`: the number, then code and message of an error, or status, headers
    /// (names and values in turn) and body: a text or, if it is not UTF-8, bytes.
    pub(crate) fn push<'js>(self, ctx: &Ctx<'js>, arguments: &mut Args<'js>) -> Result<()> {
        arguments.push_arg(self.number)?;
        match self.outcome {
            Ok(Response { status, headers, body }) => {
                arguments.push_args([Value::new_undefined(ctx.clone()), Value::new_undefined(ctx.clone())])?;
                arguments.push_arg(status)?;
                arguments.push_arg(headers)?;
                match String::from_utf8(body) {
                    Ok(text) => arguments.push_arg(text),
                    Err(bytes) => arguments.push_arg(TypedArray::<u8>::new(ctx.clone(), bytes.into_bytes())?),
                }
            }
            Err(Failure { code, message }) => arguments.push_args([code, message.as_str()]),
        }
    }
}
