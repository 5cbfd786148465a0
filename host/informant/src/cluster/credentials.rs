//! Credentials that change while a client is in use: a token file, or what a login program prints.
//!
//! They are read again when they are about to expire, and after the API server refused them. There is one read at a
//! time; requests that need credentials meanwhile wait for it. While a token is still valid, a read that fails changes
//! nothing.
//!
//! Source: client-go `transport/token_source.go` (token files: trimmed, read again after a minute, reset by a 401) and
//! `plugin/pkg/client/auth/exec` (login programs).

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use http::HeaderValue;
use http::header::InvalidHeaderValue;
use jiff::Timestamp;
use kube::Client;
use kube::config::{AuthInfo, Config, ExecConfig};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::effects::{self, EffectGate};
use super::exec_login::{self, ExecError, LOGIN_MAX};
use super::files;
use crate::files::{ReadFileError, Turn, read_regular_file};
use crate::sync::lock;

/// The age at which a token file is read again. As in client-go.
const TOKEN_FILE_AGE_MAX: Duration = Duration::from_secs(50);

/// How long reading a token file may take.
const TOKEN_FILE_READ_MAX: Duration = Duration::from_secs(10);

/// The largest token file: API servers accept no larger headers.
const TOKEN_FILE_BYTES_MAX: usize = 64 * 1_024;

/// How long before the end of its validity a login is renewed; a tenth of its validity, if that is less.
const RENEW_BEFORE_MAX: Duration = Duration::from_secs(60);

/// The least time between two runs of a login program whose credentials are refused.
const LOGIN_SPACING: Duration = Duration::from_secs(10);

/// How long a failure of a login is the answer to further requests.
const FAILURE_SPACING: Duration = Duration::from_secs(1);

/// Why there are no credentials.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum LoginError {
    #[error("token file {path}: {reason}")]
    TokenFile { path: PathBuf, reason: Arc<str> },
    #[error(transparent)]
    Exec(Arc<ExecError>),
    #[error("cannot build a client with these credentials: {0}")]
    Client(Arc<kube::Error>),
    #[error("the login was aborted")]
    Aborted,
}

/// Where credentials come from.
#[derive(Debug)]
pub(super) enum Source {
    TokenFile(PathBuf),
    Exec(Box<ExecConfig>),
}

impl Source {
    /// The source of a user; none if kube's client has all it needs. The precedence is kube's.
    pub(super) fn of(user: &AuthInfo) -> Option<Self> {
        let has_password = user.username.is_some() && user.password.is_some();
        if user.auth_provider.is_some() || has_password || user.token.is_some() {
            return None;
        }
        let file = user.token_file.as_ref().map(|path| Self::TokenFile(path.into()));
        file.or_else(|| user.exec.clone().map(|exec| Self::Exec(Box::new(exec))))
    }
}

/// Credentials, and the client that sends requests with them.
pub(super) struct Credential {
    pub(super) client: Client,
    pub(super) header: Option<HeaderValue>,
    identity: Option<exec_login::Identity>,
    obtained: Instant,
    validity: Validity,
}

/// When credentials are read again.
enum Validity {
    /// They remain usable if they cannot be.
    Until(Instant),
    /// By the clock on the wall.
    Expires {
        renew: Timestamp,
        end: Timestamp,
    },
    Unlimited,
}

impl Credential {
    fn is_due(&self) -> bool {
        match &self.validity {
            Validity::Until(until) => Instant::now() >= *until,
            Validity::Expires { renew, .. } => Timestamp::now() >= *renew,
            Validity::Unlimited => false,
        }
    }

    fn is_usable(&self) -> bool {
        !matches!(&self.validity, Validity::Expires { end, .. } if Timestamp::now() >= *end)
    }

    fn is_same(&self, other: &Self) -> bool {
        self.header == other.header && self.identity == other.identity
    }
}

type Read = Shared<BoxFuture<'static, Result<Arc<Credential>, LoginError>>>;

pub(super) struct Credentials {
    reader: Arc<Reader>,
    state: Mutex<State>,
    itself: Weak<Self>,
}

#[derive(Default)]
struct State {
    current: Option<Arc<Credential>>,
    /// Read again before the next request.
    invalid: bool,
    reading: Option<Read>,
    failed: Option<(Instant, LoginError)>,
}

struct Reader {
    source: Source,
    /// Without the source's own settings.
    config: Config,
    gate: EffectGate,
}

impl Credentials {
    /// Reads nothing yet. `config` is the cluster's.
    pub(super) fn new(source: Source, mut config: Config, gate: EffectGate) -> Arc<Self> {
        config.auth_info.token_file = None;
        config.auth_info.exec = None;
        Arc::new_cyclic(|itself| Self {
            reader: Arc::new(Reader { source, config, gate }),
            state: Mutex::default(),
            itself: Weak::clone(itself),
        })
    }

    /// The current credentials.
    /// Errors: [`LoginError`] if there are none, or they have expired, and none can be obtained.
    pub(super) async fn get(&self) -> Result<Arc<Credential>, LoginError> {
        let current = {
            let state = self.state();
            match &state.current {
                // While another request renews them, the present ones do.
                Some(current)
                    if !state.invalid && (!current.is_due() || (state.reading.is_some() && current.is_usable())) =>
                {
                    return Ok(Arc::clone(current));
                }
                current => current.clone(),
            }
        };
        match (self.read().await, current) {
            (Ok(read), _) => Ok(read),
            (Err(_), Some(current)) if current.is_usable() => Ok(current),
            (Err(error), _) => Err(error),
        }
    }

    /// The last credentials, even if they have expired.
    pub(super) fn at_hand(&self) -> Option<Arc<Credential>> {
        self.state().current.clone()
    }

    /// Reads them again before the next request.
    pub(super) fn invalidate(&self) {
        self.state().invalid = true;
    }

    /// Other credentials than `used`, which the API server refused for a request sent at `sent`; none if there are no
    /// others.
    pub(super) async fn renewed(&self, used: &Credential, sent: Instant) -> Option<Arc<Credential>> {
        let newer = {
            let state = self.state();
            state.current.clone().filter(|current| current.obtained > sent)
        };
        let renewed = match (newer, &self.reader.source) {
            (Some(newer), _) => newer,
            (None, Source::Exec(_)) if used.obtained.elapsed() < LOGIN_SPACING => return None,
            // If they cannot be read, the answer of the API server says most.
            (None, _) => self.read().await.ok()?,
        };
        (!renewed.is_same(used)).then_some(renewed)
    }

    /// Reads them now, or waits for the read in progress.
    async fn read(&self) -> Result<Arc<Credential>, LoginError> {
        let reading = {
            let mut state = self.state();
            if let Some((at, error)) = &state.failed
                && at.elapsed() < FAILURE_SPACING
            {
                return Err(error.clone());
            }
            let State { current, reading, .. } = &mut *state;
            reading.get_or_insert_with(|| self.begin_read(current.clone())).clone()
        };
        reading.await
    }

    /// A read that continues while somebody waits for it, or these credentials are in use.
    fn begin_read(&self, current: Option<Arc<Credential>>) -> Read {
        let (reader, itself) = (Arc::clone(&self.reader), Weak::clone(&self.itself));
        let task = AbortOnDropHandle::new(tokio::spawn(async move {
            let result = reader.read(current.as_deref()).await;
            if let Some(credentials) = itself.upgrade() {
                credentials.store(&result);
            }
            result
        }));
        async move { task.await.unwrap_or(Err(LoginError::Aborted)) }
            .boxed()
            .shared()
    }

    fn store(&self, result: &Result<Arc<Credential>, LoginError>) {
        let mut state = self.state();
        state.reading = None;
        match result {
            Ok(read) => {
                state.current = Some(Arc::clone(read));
                state.invalid = false;
                state.failed = None;
            }
            Err(error) => {
                if state.current.is_some() {
                    tracing::warn!(url = %self.reader.config.cluster_url, %error, "cannot renew credentials");
                }
                state.failed = Some((Instant::now(), error.clone()));
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl Reader {
    async fn read(&self, current: Option<&Credential>) -> Result<Arc<Credential>, LoginError> {
        let (token, identity, validity) = match &self.source {
            Source::TokenFile(path) => {
                let token = read_token(path).await?;
                (Some(token), None, Validity::Until(Instant::now() + TOKEN_FILE_AGE_MAX))
            }
            Source::Exec(exec) => {
                let login = exec_login::run(exec, LOGIN_MAX).await;
                let login = login.map_err(|error| LoginError::Exec(Arc::new(error)))?;
                (
                    login.token,
                    login.identity,
                    login.expires.map_or(Validity::Unlimited, expires),
                )
            }
        };
        let header = token.map(|token| self.header(&token)).transpose()?;
        let client = match current {
            // Its connections continue.
            Some(current) if current.identity == identity => current.client.clone(),
            _ => self.client(identity.as_ref()).await?,
        };
        Ok(Arc::new(Credential {
            client,
            header,
            identity,
            obtained: Instant::now(),
            validity,
        }))
    }

    fn header(&self, token: &str) -> Result<HeaderValue, LoginError> {
        bearer(token).map_err(|_| match &self.source {
            Source::TokenFile(path) => invalid_token(path),
            Source::Exec(exec) => LoginError::Exec(Arc::new(ExecError::invalid_token(exec))),
        })
    }

    async fn client(&self, identity: Option<&exec_login::Identity>) -> Result<Client, LoginError> {
        let mut config = self.config.clone();
        if let Some(identity) = identity {
            config.auth_info.client_certificate_data = Some(STANDARD.encode(&identity.certificate));
            config.auth_info.client_key_data = Some(STANDARD.encode(&identity.key).into());
        }
        let gate = self.gate.clone();
        let client = Turn::of(&files(&config))
            .run(move || effects::client(config, gate))
            .await;
        let client = client.map_err(|_| LoginError::Aborted)?;
        client.map_err(|error| LoginError::Client(Arc::new(error)))
    }
}

fn expires(end: Timestamp) -> Validity {
    let now = Timestamp::now();
    let left = Duration::try_from(end.duration_since(now)).unwrap_or_default();
    let renew = end - RENEW_BEFORE_MAX.min(left / 10);
    Validity::Expires { renew, end }
}

fn token_file(path: &Path, reason: impl Into<Arc<str>>) -> LoginError {
    LoginError::TokenFile {
        path: path.to_owned(),
        reason: reason.into(),
    }
}

fn invalid_token(path: &Path) -> LoginError {
    token_file(path, "the token contains characters that a header cannot have")
}

/// The `Authorization` header with a token, which is never logged.
pub(super) fn bearer(token: &str) -> Result<HeaderValue, InvalidHeaderValue> {
    let mut header = HeaderValue::try_from(format!("Bearer {token}"))?;
    header.set_sensitive(true);
    Ok(header)
}

/// The `Authorization` header with the token in a file.
/// Errors: [`LoginError::TokenFile`], without the file's content.
pub(crate) async fn bearer_of_file(path: &Path) -> Result<HeaderValue, LoginError> {
    bearer(&read_token(path).await?).map_err(|_| invalid_token(path))
}

/// The token in a file, without the white space around it.
async fn read_token(path: &Path) -> Result<String, LoginError> {
    let file = path.to_owned();
    let turn = Turn::of(path);
    let read = turn.run(move || read_regular_file(&file, TOKEN_FILE_BYTES_MAX));
    let Ok(bytes) = tokio::time::timeout(TOKEN_FILE_READ_MAX, read).await else {
        let seconds = TOKEN_FILE_READ_MAX.as_secs();
        let reason = format!("not read within {seconds} s; its file system may hang");
        return Err(token_file(path, reason));
    };
    let bytes = bytes.map_err(|_| LoginError::Aborted)?.map_err(|error| match error {
        ReadFileError::TooLarge { .. } => token_file(path, format!("larger than {TOKEN_FILE_BYTES_MAX} bytes")),
        error => token_file(path, error.to_string()),
    })?;
    let text = String::from_utf8(bytes).map_err(|_| token_file(path, "not UTF-8"))?;
    match text.trim() {
        "" => Err(token_file(path, "empty")),
        token if token.contains(char::is_whitespace) => Err(token_file(
            path,
            "contains spaces or several lines; it must contain the token alone, without `Bearer`",
        )),
        token => Ok(token.to_owned()),
    }
}
