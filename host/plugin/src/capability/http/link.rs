//! Links wasi:http, with Informant's bounds where wasmtime has none.

use wasmtime::component::{Linker, Resource};
use wasmtime_wasi_http::WasiHttpView;
use wasmtime_wasi_http::p2::bindings::http::types::{HostOutgoingRequest as _, IoError, Method, OutgoingRequest};

use super::body_error_code;

/// Bytes of the name of a method that a guest makes up: 64.
pub(crate) const HTTP_METHOD_BYTES_MAX: usize = 64;

/// Bytes of host and port of a request: 300. A DNS name has at most 253.
pub(crate) const HTTP_AUTHORITY_BYTES_MAX: usize = 300;

/// Links wasi:http.
pub(crate) fn link<T: WasiHttpView + 'static>(linker: &mut Linker<T>) -> wasmtime::Result<()> {
    wasmtime_wasi_http::p2::add_only_http_to_linker_async(linker)?;
    linker.allow_shadowing(true);
    let mut types = linker.instance("wasi:http/types@0.2.12")?;
    // wasmtime's own function does not know the errors that bodies end with.
    types.func_wrap("http-error-code", |mut store, (error,): (Resource<IoError>,)| {
        let view = store.data_mut().http();
        Ok((body_error_code(view.table.get(&error)?),))
    })?;
    // wasmtime keeps what the guest sets, however long, until the guest drops the request.
    types.func_wrap(
        "[method]outgoing-request.set-method",
        |mut store, (request, method): (Resource<OutgoingRequest>, Method)| {
            let is_long = matches!(&method, Method::Other(name) if name.len() > HTTP_METHOD_BYTES_MAX);
            let set = if is_long {
                Err(())
            } else {
                store.data_mut().http().set_method(request, method)?
            };
            Ok((set,))
        },
    )?;
    types.func_wrap(
        "[method]outgoing-request.set-authority",
        |mut store, (request, authority): (Resource<OutgoingRequest>, Option<String>)| {
            let is_long = authority
                .as_ref()
                .is_some_and(|text| text.len() > HTTP_AUTHORITY_BYTES_MAX);
            let set = if is_long {
                Err(())
            } else {
                store.data_mut().http().set_authority(request, authority)?
            };
            Ok((set,))
        },
    )?;
    linker.allow_shadowing(false);
    Ok(())
}
