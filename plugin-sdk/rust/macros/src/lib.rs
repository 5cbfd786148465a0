//! The macros of informant-plugin-sdk, which documents them.
//!
//! The code that they generate names the SDK `informant`: the SDK's prelude has this name, and so has a dependency
//! that is called so.

mod handler;
mod projection;
mod serde_attributes;

use proc_macro::TokenStream;

#[allow(missing_docs, reason = "documented in the SDK, where it is exported")]
#[proc_macro_attribute]
pub fn handler(arguments: TokenStream, function: TokenStream) -> TokenStream {
    handler::expand(arguments.into(), function.into())
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}

#[allow(missing_docs, reason = "documented in the SDK, where it is exported")]
#[proc_macro_derive(Projection, attributes(projection, serde))]
pub fn projection(input: TokenStream) -> TokenStream {
    projection::expand(input.into())
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}
