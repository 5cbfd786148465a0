//! `#[derive(Projection)]`: JSON pointers from a type.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Attribute, Data, DeriveInput, Error, Field, Fields, FieldsNamed, LitStr, Result, parse2};

use crate::serde_attributes::{self, Rename};

pub(crate) fn expand(input: TokenStream) -> Result<TokenStream> {
    let input: DeriveInput = parse2(input)?;
    if !input.generics.params.is_empty() {
        return Err(Error::new_spanned(
            &input.generics,
            "Projection cannot be derived for a generic type: implement it by hand",
        ));
    }
    let pointers = match &input.data {
        Data::Struct(data) => match &data.fields {
            Fields::Named(fields) => of_members(fields, serde_attributes::container(&input.attrs, true)?, &input)?,
            Fields::Unnamed(fields) if fields.unnamed.len() == 1 => {
                serde_attributes::container(&input.attrs, false)?;
                let inner = &fields.unnamed[0].ty;
                quote!(<#inner as informant::Projection>::pointers())
            }
            _ => whole(),
        },
        // serde takes the whole value, whatever the representation.
        Data::Enum(_) => whole(),
        Data::Union(_) => return Err(Error::new_spanned(&input, "Projection cannot be derived for a union")),
    };
    let (name, kind) = (&input.ident, kind(&input)?);
    Ok(quote! {
        impl informant::Projection for #name {
            fn pointers() -> ::std::vec::Vec<::std::string::String> {
                #pointers
            }
        }
        #kind
    })
}

fn whole() -> TokenStream {
    quote!(::std::vec![::std::string::String::new()])
}

fn of_members(fields: &FieldsNamed, rule: Rename, input: &DeriveInput) -> Result<TokenStream> {
    let mut members = Vec::new();
    for field in &fields.named {
        let attributes = serde_attributes::field(&field.attrs)?;
        if attributes.is_skipped {
            continue;
        }
        let ident = field.ident.as_ref().map(ToString::to_string).unwrap_or_default();
        let name = attributes
            .rename
            .unwrap_or_else(|| rule.apply(ident.trim_start_matches("r#")));
        if name == "*" {
            return Err(Error::new_spanned(
                field,
                "in a JSON pointer, `*` stands for every member",
            ));
        }
        let token = name.replace('~', "~0").replace('/', "~1");
        members.push(if attributes.is_opaque || is_whole(field)? {
            quote!(pointers.push(::std::string::String::from(::core::concat!("/", #token))))
        } else {
            let ty = &field.ty;
            quote!(pointers.extend(informant::__private::below::<#ty>(#token)))
        });
    }
    if members.is_empty() {
        return Err(Error::new_spanned(
            input,
            "this type reads no field: use `()`, for which Informant sends no document",
        ));
    }
    Ok(quote! {
        let mut pointers = ::std::vec::Vec::new();
        #(#members;)*
        pointers
    })
}

/// Whether the field has `#[projection(whole)]`.
fn is_whole(field: &Field) -> Result<bool> {
    let mut whole = false;
    for attribute in ours(&field.attrs) {
        attribute.parse_nested_meta(|meta| {
            whole = meta.path.is_ident("whole");
            if whole {
                Ok(())
            } else {
                Err(meta.error("a field can only have `whole`"))
            }
        })?;
    }
    Ok(whole)
}

/// The implementation of `Kind` for a type with `#[projection(api_version = "…", kind = "…")]`.
fn kind(input: &DeriveInput) -> Result<Option<TokenStream>> {
    let (mut api_version, mut kind) = (None::<LitStr>, None::<LitStr>);
    for attribute in ours(&input.attrs) {
        attribute.parse_nested_meta(|meta| {
            let target = match &meta.path {
                path if path.is_ident("api_version") => &mut api_version,
                path if path.is_ident("kind") => &mut kind,
                _ => return Err(meta.error("a type can have `api_version = \"v1\", kind = \"Pod\"`")),
            };
            *target = Some(meta.value()?.parse()?);
            Ok(())
        })?;
    }
    let name = &input.ident;
    match (api_version, kind) {
        (Some(api_version), Some(kind)) => Ok(Some(quote! {
            impl informant::Kind for #name {
                const API_VERSION: &'static str = #api_version;
                const KIND: &'static str = #kind;

                fn payload() -> informant::PayloadKind {
                    informant::PayloadKind::of::<Self>()
                }
            }
        })),
        (None, None) => Ok(None),
        (Some(one), None) | (None, Some(one)) => Err(Error::new_spanned(one, "`api_version` and `kind` go together")),
    }
}

fn ours(attributes: &[Attribute]) -> impl Iterator<Item = &Attribute> {
    attributes
        .iter()
        .filter(|attribute| attribute.path().is_ident("projection"))
}

#[cfg(test)]
mod tests {
    use quote::quote;

    use super::*;

    fn error(input: TokenStream) -> String {
        expand(input).expect_err("it is refused").to_string()
    }

    #[test]
    fn serde_attributes_that_change_the_shape_are_refused() {
        for attribute in [
            quote!(flatten),
            quote!(alias = "other"),
            quote!(borrow),
            quote!(getter = "get"),
            quote!(new_in_serde),
        ] {
            let message = error(quote!(
                struct Pod {
                    #[serde(default, #attribute)]
                    a: String,
                }
            ));
            assert!(message.starts_with("Projection cannot tell which fields"), "{message}");
        }
        for attribute in [
            quote!(deny_unknown_fields),
            quote!(tag = "type"),
            quote!(from = "Other"),
            quote!(try_from = "Other"),
            quote!(remote = "Other"),
            quote!(transparent),
        ] {
            let message = error(quote!(
                #[serde(default, #attribute)]
                struct Pod {
                    a: String,
                }
            ));
            assert!(message.starts_with("Projection cannot tell which fields"), "{message}");
        }
    }

    #[test]
    fn types_without_a_fixed_list_of_fields_are_refused() {
        let refused = [
            (
                quote!(
                    struct Pod<T> {
                        a: T,
                    }
                ),
                "generic",
            ),
            (
                quote!(
                    struct Pod {}
                ),
                "reads no field",
            ),
            (
                quote!(
                    struct Pod {
                        #[serde(skip)]
                        a: String,
                    }
                ),
                "reads no field",
            ),
            (
                quote!(
                    struct Pod {
                        #[serde(rename = "*")]
                        a: String,
                    }
                ),
                "every member",
            ),
            (
                quote!(
                    struct Pod {
                        #[projection(hole)]
                        a: String,
                    }
                ),
                "only have `whole`",
            ),
            (
                quote!(
                    #[projection(kind = "Pod")]
                    struct Pod {
                        a: String,
                    }
                ),
                "go together",
            ),
            (
                quote!(
                    #[projection(version = "v1")]
                    struct Pod {
                        a: String,
                    }
                ),
                "a type can have",
            ),
        ];
        for (input, part) in refused {
            let message = error(input);
            assert!(message.contains(part), "{message}");
        }
    }
}
