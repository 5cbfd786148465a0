//! `/dashboard/`: the files of the dashboard, which anybody who reaches the port may read. They contain no data: the
//! page asks the routes of the API for that, with the caller's token.

use axum::Router;
use axum::extract::Path;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderName, StatusCode};

use super::AdminState;

/// A file of the dashboard: its name, and its bytes.
type File = (&'static str, &'static [u8]);

/// None in a program that was built without them.
const FILES: Option<[File; 3]> = include!(concat!(env!("OUT_DIR"), "/dashboard.rs"));

/// Everything is from this port, and nothing runs but the page's own file.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The answer of a program without the dashboard.
const ABSENT: &str = "this program was built without the dashboard: use one of a release, or build it with \
                      `cargo xtask build` where npm is installed\n";

pub(super) fn routes() -> Router<AdminState> {
    Router::new()
        .route("/dashboard", get(async || Redirect::permanent("dashboard/")))
        .route("/dashboard/", get(async || file("index.html")))
        .route("/dashboard/{file}", get(async |Path(name): Path<String>| file(&name)))
}

/// Whether a request is for one of these files.
pub(super) fn is_file(path: &str) -> bool {
    path == "/dashboard" || path.starts_with("/dashboard/")
}

fn file(name: &str) -> Response {
    let Some(files) = FILES else {
        return (StatusCode::NOT_FOUND, ABSENT).into_response();
    };
    let Some((name, bytes)) = files.into_iter().find(|(known, _)| *known == name) else {
        return (StatusCode::NOT_FOUND, "the dashboard has no such file\n").into_response();
    };
    let content_type = match name.rsplit_once('.') {
        Some((_, "html")) => "text/html; charset=utf-8",
        Some((_, "css")) => "text/css; charset=utf-8",
        _ => "text/javascript; charset=utf-8",
    };
    let headers: [(HeaderName, &str); 5] = [
        (CONTENT_TYPE, content_type),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        // The files are those of the program, which may be another one after an upgrade.
        (CACHE_CONTROL, "no-cache"),
    ];
    (headers, bytes).into_response()
}
