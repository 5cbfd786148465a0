//! Who the caller is to the daemon: a bearer token from a file, of a service account, or of the kubeconfig's user.
//!
//! A token is obtained only if it is sent, which needs TLS, and appears in no message.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use http::HeaderValue;
use kube::config::Kubeconfig;
use tokio::sync::OnceCell;

use super::names;
use crate::cluster::{ClusterError, ClusterFlags, User, bearer_of_file};

/// How long the API server may take to answer a request.
pub(super) const API_SERVER_ANSWER_MAX: Duration = Duration::from_secs(30);

/// Where the caller's identity comes from.
#[derive(Debug, Args)]
#[command(next_help_heading = "Connection")]
pub(super) struct IdentityArgs {
    /// Kubeconfig of the user whose token is sent, and for port-forwards [default: $KUBECONFIG, ~/.kube/config, the
    /// pod's service account]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Kubeconfig context [default: the kubeconfig's current context]
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// File with the token to send [default: the token of the kubeconfig's user]
    #[arg(long, value_name = "FILE", conflicts_with = "service_account")]
    token_file: Option<PathBuf>,
    /// Request a token of this service account and send that; it is valid for 10 minutes, and only for Informant
    #[arg(long, value_name = "[NAMESPACE/]NAME", value_parser = ServiceAccount::parse)]
    service_account: Option<ServiceAccount>,
}

/// A service account: the namespace is the context's if there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ServiceAccount {
    namespace: Option<String>,
    name: String,
}

impl ServiceAccount {
    fn parse(text: &str) -> Result<Self, String> {
        let (namespace, name) = match text.split_once('/') {
            Some((namespace, name)) => (Some(names::parse(namespace)?), name),
            None => (None, text),
        };
        Ok(Self {
            namespace,
            name: names::parse(name)?,
        })
    }
}

impl IdentityArgs {
    /// The namespace that the context names. None without a kubeconfig, or if it cannot be read: what needs it reports
    /// that.
    pub(super) fn context_namespace(&self) -> Option<String> {
        let read = match &self.kubeconfig {
            Some(path) => Kubeconfig::read_from(path),
            None => Kubeconfig::read(),
        };
        let config = read.ok()?;
        let wanted = self.context.clone().or(config.current_context)?;
        let mut contexts = config.contexts.into_iter();
        let context = contexts.find(|context| context.name == wanted)?.context?;
        context.namespace.filter(|namespace| !namespace.is_empty())
    }

    /// The flag that asks for a token.
    pub(super) fn flag(&self) -> Option<&'static str> {
        if self.token_file.is_some() {
            Some("--token-file")
        } else {
            self.service_account.as_ref().map(|_| "--service-account")
        }
    }
}

pub(super) struct Token {
    pub(super) header: HeaderValue,
    pub(super) origin: Origin,
}

/// Where a token comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Origin {
    User,
    ServiceAccount { namespace: String, name: String },
    File(PathBuf),
}

impl fmt::Display for Origin {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User => out.write_str("the token of the kubeconfig's user"),
            Self::ServiceAccount { namespace, name } => {
                write!(out, "a token of the service account {namespace}/{name}")
            }
            Self::File(path) => write!(out, "the token in {}", path.display()),
        }
    }
}

/// What the API server's error means for the user. `needed` is the right without which it answers 403.
pub(super) fn explain(error: &kube::Error, needed: &str) -> String {
    match error {
        kube::Error::Api(status) if status.code == 403 => format!("{}; you need {needed}", status.message),
        // The message is all that people need of it.
        kube::Error::Api(status) if !status.message.is_empty() => status.message.clone(),
        error => error.to_string(),
    }
}

/// The caller. Reads the kubeconfig once, when it is needed.
pub(super) struct Identity<'a> {
    args: &'a IdentityArgs,
    user: OnceCell<User>,
}

impl<'a> Identity<'a> {
    pub(super) fn new(args: &'a IdentityArgs) -> Self {
        Self {
            args,
            user: OnceCell::new(),
        }
    }

    pub(super) async fn user(&self) -> Result<&User> {
        let flags = ClusterFlags {
            kubeconfig: self.args.kubeconfig.clone(),
            context: self.args.context.clone(),
        };
        let connected = self.user.get_or_try_init(async || User::connect(&flags).await).await;
        connected.map_err(|error| match error {
            ClusterError::NotConfigured(_) => anyhow!(
                "there is no kubeconfig in $KUBECONFIG or ~/.kube/config to tell who you are: pass one with --kubeconfig"
            ),
            error => error.into(),
        })
    }

    pub(super) async fn token(&self) -> Result<Token> {
        match (&self.args.token_file, &self.args.service_account) {
            (Some(file), _) => Ok(Token {
                header: bearer_of_file(file).await?,
                origin: Origin::File(file.clone()),
            }),
            (None, Some(account)) => self.of_service_account(account).await,
            (None, None) => self.of_user().await,
        }
    }

    async fn of_user(&self) -> Result<Token> {
        const OTHER_WAYS: &str =
            "pass --service-account [NAMESPACE/]NAME for a token of a service account, or --token-file FILE";
        let user = self
            .user()
            .await
            .with_context(|| format!("no token to send; {OTHER_WAYS}"))?;
        if let Some(other) = user.impersonates() {
            // The daemon would see the user, and not the one that the user acts as.
            bail!("the kubeconfig's user acts as {other}, which a token cannot express: {OTHER_WAYS}");
        }
        let header = user.bearer().await?;
        let header = header.with_context(|| {
            format!(
                "the kubeconfig's user has no bearer token (but a client certificate or a password, for example), and \
                 Informant accepts nothing else: {OTHER_WAYS}"
            )
        })?;
        Ok(Token {
            header,
            origin: Origin::User,
        })
    }

    async fn of_service_account(&self, account: &ServiceAccount) -> Result<Token> {
        let user = self.user().await?;
        let (namespace, name) = (account.namespace.as_ref().unwrap_or(&user.namespace), &account.name);
        let origin = Origin::ServiceAccount {
            namespace: namespace.clone(),
            name: name.clone(),
        };
        let failed = || format!("cannot obtain {origin} from the API server");
        let requested = tokio::time::timeout(API_SERVER_ANSWER_MAX, user.request_token(namespace, name)).await;
        let needed = "`create` on serviceaccounts/token for this service account";
        let requested = requested
            .with_context(failed)?
            .map_err(|error| anyhow!("{}: {}", failed(), explain(&error, needed)))?;
        let header = requested.with_context(|| format!("{}: its answer has none", failed()))?;
        Ok(Token { header, origin })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_accounts_have_a_name_and_maybe_a_namespace() {
        let parsed = |text: &str| ServiceAccount::parse(text).map(|account| (account.namespace, account.name));
        assert_eq!(parsed("ci"), Ok((None, "ci".to_owned())));
        assert_eq!(parsed("team-a/ci"), Ok((Some("team-a".to_owned()), "ci".to_owned())));
        for text in ["", "a/b/c", "/ci", "team-a/", "../ci", "ci?x", "CI"] {
            assert!(parsed(text).is_err(), "{text}");
        }
    }
}
