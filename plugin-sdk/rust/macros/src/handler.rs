//! `#[handler]`: a plugin from one function.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::{Error, Expr, FnArg, GenericArgument, Ident, ItemFn, PathArguments, Result, Token, Type, parse2};

const SIGNATURE: &str = "a handler is `fn name(event: &Event, object: T) -> Result`, or has an `Option<T>`, which is \
                         `None` when the object was deleted";

pub(crate) fn expand(arguments: TokenStream, function: TokenStream) -> Result<TokenStream> {
    let function: ItemFn = parse2(function)?;
    let object = object_type(&function)?;
    let (object, calls) = match inside_option(object) {
        Some(object) => (object, with_deletes(&function.sig.ident, object)),
        None => (object, without_deletes(&function.sig.ident, object)),
    };
    let manifest = manifest(arguments, object)?;
    let (visibility, plugin) = (&function.vis, plugin_name(&function.sig.ident));
    let doc = format!("The plugin whose handler is [`{}`].", function.sig.ident);
    Ok(quote! {
        #function

        #[doc = #doc]
        #[derive(Debug)]
        #visibility struct #plugin;

        impl informant::Plugin for #plugin {
            fn describe(_: informant::Describe) -> informant::Result<informant::Manifest> {
                ::core::result::Result::Ok(#manifest)
            }

            fn init(_: informant::Init) -> informant::Result<Self> {
                ::core::result::Result::Ok(Self)
            }
        }

        impl informant::EventHandler<#object> for #plugin {
            #calls
        }

        informant::export!(#plugin: events);
    })
}

/// The type of the second parameter.
fn object_type(function: &ItemFn) -> Result<&Type> {
    let signature = &function.sig;
    let refused = || Error::new_spanned(signature, SIGNATURE);
    if signature.asyncness.is_some() || !signature.generics.params.is_empty() {
        return Err(refused());
    }
    let mut parameters = signature.inputs.iter();
    match (parameters.next(), parameters.next(), parameters.next()) {
        (Some(FnArg::Typed(_)), Some(FnArg::Typed(object)), None) => Ok(&object.ty),
        _ => Err(refused()),
    }
}

/// `T` of `Option<T>`.
fn inside_option(ty: &Type) -> Option<&Type> {
    let Type::Path(path) = ty else { return None };
    let last = path.path.segments.last().filter(|last| last.ident == "Option")?;
    match &last.arguments {
        PathArguments::AngleBracketed(arguments) => match arguments.args.first()? {
            GenericArgument::Type(ty) => Some(ty),
            _ => None,
        },
        _ => None,
    }
}

fn without_deletes(function: &Ident, object: &Type) -> TokenStream {
    quote! {
        fn on_upsert(&mut self, event: &informant::Event, object: #object) -> informant::Result<informant::Action> {
            ::core::result::Result::Ok(#function(event, object)?.into())
        }
    }
}

fn with_deletes(function: &Ident, object: &Type) -> TokenStream {
    quote! {
        fn on_upsert(&mut self, event: &informant::Event, object: #object) -> informant::Result<informant::Action> {
            ::core::result::Result::Ok(#function(event, ::core::option::Option::Some(object))?.into())
        }

        fn on_delete(
            &mut self,
            event: &informant::Event,
            _: informant::Deleted<#object>,
        ) -> informant::Result<informant::Action> {
            ::core::result::Result::Ok(#function(event, ::core::option::Option::None)?.into())
        }
    }
}

/// `name` or `name = value`.
struct Argument {
    name: Ident,
    value: Option<Expr>,
}

impl syn::parse::Parse for Argument {
    fn parse(input: syn::parse::ParseStream<'_>) -> Result<Self> {
        let name = input.parse()?;
        let value = input.parse::<Option<Token![=]>>()?.map(|_| input.parse()).transpose()?;
        Ok(Self { name, value })
    }
}

/// The manifest: one rule for the type of the objects, changed by the arguments.
fn manifest(arguments: TokenStream, object: &Type) -> Result<TokenStream> {
    let arguments = Punctuated::<Argument, Token![,]>::parse_terminated.parse2(arguments)?;
    let (mut api_version, mut kind) = (None, None);
    let (mut rule, mut needs) = (TokenStream::new(), TokenStream::new());
    for Argument { name, value } in &arguments {
        match (name.to_string().as_str(), value) {
            ("api_version", Some(value)) => api_version = Some(value),
            ("kind", Some(value)) => kind = Some(value),
            ("changed_only", None) => rule.extend(quote!(.changed_only())),
            ("namespaces" | "label_selector", Some(value)) => rule.extend(quote!(.#name(#value))),
            ("needs", Some(value)) => needs.extend(quote!(.needs(#value))),
            _ => {
                return Err(Error::new_spanned(
                    name,
                    "the arguments are `api_version = \"v1\", kind = \"Pod\"` (both), `changed_only`, `namespaces = [..]`, \
                     `label_selector = \"..\"` and `needs = Need::kube(..)`",
                ));
            }
        }
    }
    let events = match (api_version, kind) {
        (Some(api_version), Some(kind)) => quote!(informant::Events::of(#api_version, #kind)),
        (None, None) => quote!(informant::Events::of_type::<#object>()),
        (Some(value), None) | (None, Some(value)) => {
            return Err(Error::new_spanned(value, "`api_version` and `kind` go together"));
        }
    };
    Ok(quote!(informant::Manifest::new().events(#events #rule) #needs))
}

/// `on_pod` becomes `OnPod`.
fn plugin_name(function: &Ident) -> Ident {
    let name = function.to_string();
    let words = name.trim_start_matches("r#").split('_').map(|word| {
        let mut letters = word.chars();
        letters
            .next()
            .map(|first| first.to_uppercase().chain(letters).collect::<String>())
    });
    format_ident!("{}", words.flatten().collect::<String>(), span = function.span())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_signatures_and_arguments_are_refused() {
        let function = quote!(
            fn on_pod(event: &Event, pod: Pod) -> Result {}
        );
        let refused = [
            (
                quote!(),
                quote!(
                    fn on_pod(event: &Event) -> Result {}
                ),
                SIGNATURE,
            ),
            (
                quote!(),
                quote!(
                    async fn on_pod(event: &Event, pod: Pod) -> Result {}
                ),
                SIGNATURE,
            ),
            (
                quote!(),
                quote!(
                    fn on_pod<T>(event: &Event, pod: T) -> Result {}
                ),
                SIGNATURE,
            ),
            (
                quote!(),
                quote!(
                    fn on_pod(&self, event: &Event, pod: Pod) -> Result {}
                ),
                SIGNATURE,
            ),
            (quote!(changed), function.clone(), "the arguments are"),
            (quote!(changed_only = true), function.clone(), "the arguments are"),
            (quote!(kind = "Pod"), function.clone(), "go together"),
        ];
        for (arguments, function, part) in refused {
            let message = expand(arguments, function).expect_err("it is refused").to_string();
            assert!(message.contains(part), "{message}");
        }
        assert!(expand(quote!(), function).is_ok());
    }

    #[test]
    fn the_plugin_is_named_like_its_function() {
        for (function, plugin) in [("on_pod", "OnPod"), ("label", "Label"), ("_on_2_pods", "On2Pods")] {
            assert_eq!(plugin_name(&format_ident!("{function}")), plugin);
        }
    }
}
