//! Asks registries for the tags of a repository.
//!
//! Source: the OCI distribution specification, "Listing Tags", and the token authentication of distribution.

use std::collections::BTreeMap;

use informant_plugin_sdk::http::{self, Response};
use informant_plugin_sdk::prelude::*;
use serde::Deserialize;

use crate::image::Image;

/// Pages of tags that are read of one repository: 10, of 1,000 tags each. Of more, the first count.
const PAGES_MAX: usize = 10;

/// Where the images without a registry are.
const DOCKER_HUB: (&str, &str) = ("docker.io", "https://registry-1.docker.io");

/// The registries that are not at `https://NAME`.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Registries(BTreeMap<String, String>);

#[derive(Deserialize)]
struct TagsPage {
    #[serde(default)]
    tags: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct Token {
    #[serde(alias = "access_token")]
    token: String,
}

impl Registries {
    fn origin(&self, registry: &str) -> String {
        match self.0.get(registry) {
            Some(origin) => origin.trim_end_matches('/').to_owned(),
            None if registry == DOCKER_HUB.0 => DOCKER_HUB.1.to_owned(),
            None => format!("https://{registry}"),
        }
    }

    /// The tags of the repository of an image.
    pub(crate) fn tags(&self, image: &Image) -> Result<Vec<String>> {
        let origin = self.origin(&image.registry);
        let (mut url, mut token) = (format!("{origin}/v2/{}/tags/list?n=1000", image.path), None);
        let mut tags = Vec::new();
        for _ in 0..PAGES_MAX {
            let mut response = get(&url, token.as_deref())?;
            if response.status() == 401 && token.is_none() {
                token = Some(anonymous_token(&response)?);
                response = get(&url, token.as_deref())?;
            }
            let response = response.ensure_ok()?;
            let page: TagsPage = response.json()?;
            tags.extend(page.tags.unwrap_or_default());
            match next_page(&response) {
                Some(next) => url = format!("{origin}{next}"),
                None => break,
            }
        }
        Ok(tags)
    }
}

fn get(url: &str, token: Option<&str>) -> Result<Response> {
    let request = http::get(url);
    let request = match token {
        Some(token) => request.header("authorization", format_args!("Bearer {token}")),
        None => request,
    };
    Ok(request.send()?)
}

/// The path of `Link: </v2/…>; rel="next"`.
fn next_page(response: &Response) -> Option<String> {
    let link = response.header("link")?;
    let (path, rel) = link.strip_prefix('<')?.split_once('>')?;
    (path.starts_with('/') && rel.contains("next")).then(|| path.to_owned())
}

/// The token that the answer says where to get: `Bearer realm="…",service="…",scope="…"`.
fn anonymous_token(refused: &Response) -> Result<String> {
    let challenge = refused.header("www-authenticate").unwrap_or_default();
    let parameter = |name: &str| {
        let (_, rest) = challenge.split_once(&format!("{name}=\""))?;
        rest.split_once('"').map(|(value, _)| value)
    };
    let Some(realm) = parameter("realm") else {
        return Err(Failure::permanent(
            "the registry asks for a login, and does not say where to get a token",
        ));
    };
    let query: Vec<String> = ["service", "scope"]
        .into_iter()
        .filter_map(|name| Some(format!("{name}={}", parameter(name)?)))
        .collect();
    let response = http::get(format!("{realm}?{}", query.join("&"))).send()?.ensure_ok()?;
    Ok(response.json::<Token>()?.token)
}
